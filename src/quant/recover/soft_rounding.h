#pragma once

#include <cstdint>
#include <vector>

#include "quant/sim/adam.h"

namespace requant {

/// The rounding of a layer's weights while it is learned (AdaRound, Nagel et al. 2020, arXiv
/// 2004.10568): weight i is (base[i] + h(v[i])) * scale[i], where the rectified sigmoid h is pushed
/// to 0 or 1 in time. Elements as in the weight tensor; empty for layers whose rounding is given.
class SoftRounding {
 public:
  SoftRounding() = default;
  SoftRounding(size_t count, int64_t quant_min, int64_t quant_max);

  bool empty() const { return v_.empty(); }
  size_t count() const { return v_.size(); }

  /// Weight i, `wanted` steps of `scale`, begins halfway between its exact value and the integer
  /// `now` that it has been rounded to so far.
  void Start(size_t i, float wanted, float now, float scale);
  /// The integer that weight i has come to.
  float Integer(size_t i) const;
  /// Weights as they are now; hard: as the integers they have come to.
  void Weights(bool hard, std::vector<float>& weights) const;
  /// One step of learning by d loss / d weight. `push`: how much h counts for not being 0 or 1,
  /// by 1 - |2h - 1|^beta.
  void Update(const std::vector<float>& weight_gradient, float push, double beta);

 private:
  std::vector<float> base_, v_, scale_;
  std::vector<float> gradient_;
  Adam adam_;
  float low_ = 0, high_ = 0;
};

}  // namespace requant

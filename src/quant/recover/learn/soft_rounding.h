#pragma once

#include <cstdint>
#include <vector>

#include "quant/config/tensor_quantization_config.h"
#include "quant/sim/adam.h"

namespace requant {

/// The rounding of a layer's weights while it is learned (AdaRound, Nagel et al. 2020, arXiv
/// 2004.10568). Weight i is (base[i] + h(v[i]) - offset[i]) * scale[i], where the rectified sigmoid
/// h is gradually pushed to 0 or 1; bipolar ones are (-1 + 2 h(v[i])) * scale[i]. Elements are
/// ordered as in the weight tensor; empty for layers with fixed rounding.
class SoftRounding {
 public:
  SoftRounding() = default;
  SoftRounding(size_t count, const TensorQuantizationConfig& config);

  bool empty() const { return v_.empty(); }
  size_t count() const { return v_.size(); }

  /// Starts weight i, whose exact value is `wanted` steps of `scale`, halfway between that value
  /// and the integer `now`, with zero point `offset`, that it has been rounded to so far.
  void Start(size_t i, float wanted, float now, float scale, float offset);
  /// The integer that weight i has now.
  float Integer(size_t i) const;
  /// The present weights; with `hard` those of the present integers.
  void Weights(bool hard, std::vector<float>& weights) const;
  /// Learns one step from d loss / d weight. `push` is the weight of the penalty 1 - |2h - 1|^beta
  /// for h away from 0 and 1.
  void Update(const std::vector<float>& weight_gradient, float push, double beta);

 private:
  std::vector<float> base_, v_, scale_;
  std::vector<float> offset_;  // empty while all are 0
  std::vector<float> gradient_;
  Adam adam_;
  float low_ = 0, high_ = 0;
  float step_ = 1;  // from a code to the next
};

}  // namespace requant

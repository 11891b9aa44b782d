#pragma once

#include <cstdint>
#include <vector>

#include "quant/sim/adam.h"
#include "train/options.h"

namespace requant {

/// The state of one group of parameters.
class Optimizer {
 public:
  /// `size`: of the parameters, which Adam's steps are relative to. `decay`: of the weights towards
  /// 0. Gradients that are no finite numbers become 0.
  void Update(const TrainOptions& options, double rate, double size, double decay,
              std::vector<float>& values, std::vector<float>& gradient);

 private:
  Adam adam_;
  std::vector<float> velocity_;
};

}  // namespace requant

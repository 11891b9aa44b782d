#pragma once

#include <cstdint>
#include <vector>

#include "quant/sim/adam.h"
#include "train/options.h"

namespace requant {

/// The optimizer's state of one group of parameters.
class Optimizer {
 public:
  /// Updates the values by the gradient. `size` is the magnitude of the parameters,
  /// to which Adam's steps are relative; `decay` pulls weights towards 0. Gradients that are not
  /// finite count as 0.
  void Update(const TrainOptions& options, double rate, double size, double decay,
              std::vector<float>& values, std::vector<float>& gradient);
  /// Writes or reads the state for `count` values.
  void Fields(const TrainOptions& options, StateBytes& state, size_t count);

 private:
  Adam adam_;
  std::vector<float> velocity_;
};

}  // namespace requant

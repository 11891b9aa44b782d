#include "train/one_bit_range.h"

#include <algorithm>
#include <cmath>

namespace requant {

Range FollowOneBit(const TensorQuantizationConfig& config, std::span<const Tensor> batch,
                   double& mean) {
  double least = 0;
  double sum = 0;
  double count = 0;
  for (const Tensor& tensor : batch) {
    for (const float value : tensor.values<float>()) {
      least = std::min(least, static_cast<double>(value));
      sum += std::fabs(static_cast<double>(value));
      ++count;
    }
  }
  double size = count > 0 ? sum / count : 0;
  const bool signs = config.bipolar() && least < 0;
  const double side = !config.bipolar() && config.offset[0] == config.quant_max ? -1 : 1;
  for (int round = 0; round < 8 && !signs; ++round) {
    double above = 0;
    double inside = 0;
    for (const Tensor& tensor : batch) {
      for (const float value : tensor.values<float>()) {
        if (side * static_cast<double>(value) <= size / 2) continue;
        above += side * static_cast<double>(value);
        ++inside;
      }
    }
    if (inside > 0) size = above / inside;
  }
  if (!(size > 0)) return {config.range_min, config.range_max};
  mean = mean > 0 ? config.momentum * mean + (1 - config.momentum) * size : size;
  if (signs) return {-mean, mean};
  return side < 0 ? Range{-mean, 0} : Range{0, mean};
}

}  // namespace requant

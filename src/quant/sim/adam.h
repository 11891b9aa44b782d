#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "quant/observers/state_bytes.h"

namespace requant {

/// The optimizer Adam (Kingma and Ba 2015).
struct Adam {
  std::vector<float> mean, square;
  int64_t step = 0;
  /// Writes or reads the state for `count` values.
  void Fields(StateBytes& state, size_t count) {
    state.Value(step);
    mean.resize(step > 0 ? count : 0);
    square.resize(mean.size());
    state.SameList(mean);
    state.SameList(square);
  }
  void Update(std::vector<float>& values, const std::vector<float>& gradient, float rate) {
    if (mean.empty()) {
      mean.assign(values.size(), 0);
      square.assign(values.size(), 0);
    }
    ++step;
    const auto fix1 = static_cast<float>(1 - std::pow(0.9, static_cast<double>(step)));
    const auto fix2 = static_cast<float>(1 - std::pow(0.999, static_cast<double>(step)));
    float *to = values.data(), *first = mean.data(), *second = square.data();
    const float* slope = gradient.data();
    for (size_t i = 0, n = values.size(); i < n; ++i) {
      first[i] = 0.9f * first[i] + 0.1f * slope[i];
      second[i] = 0.999f * second[i] + 0.001f * slope[i] * slope[i];
      to[i] -= rate * (first[i] / fix1) / (std::sqrt(second[i] / fix2) + 1e-12f);
    }
  }
};

}  // namespace requant

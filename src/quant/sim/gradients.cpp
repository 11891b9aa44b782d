#include "quant/sim/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace requant {
namespace {

constexpr int64_t kPart = 256;  // elements at a time: compilers vectorize loops of a known length

/// A pseudo-random mask, 0 or all ones; it depends on nothing but `mix` and the index of the
/// element.
uint32_t Dropped(uint32_t mix, uint32_t i) {
  uint32_t x = mix + i * 2654435761u;
  x ^= x >> 15;
  x *= 2246822519u;
  return 0u - (x >> 31);
}

}  // namespace

void KeepDropped(uint32_t mix, const float* before, int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) {
    const float kept = before[i], value = values[i];
    values[i] = Dropped(mix, static_cast<uint32_t>(i)) != 0 ? kept : value;
  }
}

GridRange ActivationGrid(const TensorQuantizationConfig& config) {
  // The scale of least squares is the mean magnitude, 0.798 standard deviations of normal values.
  constexpr float kDeviation = 1.2533141F;
  return {config.scale[0],
          static_cast<float>(config.quant_min - config.offset[0]),
          static_cast<float>(config.quant_max - config.offset[0]),
          config.bipolar(),
          static_cast<float>(config.threshold),
          kDeviation};
}

GridRange WeightGrid(const TensorQuantizationConfig& config, size_t channel) {
  return {config.scale[channel],
          static_cast<float>(config.quant_min - config.offset[channel]),
          static_cast<float>(config.quant_max - config.offset[channel]),
          config.bipolar(),
          0,
          std::numeric_limits<float>::infinity()};
}

namespace {

/// GridGradient() of y = s sign(x - t s): dy/ds = sign - t where x is inside of the window.
double SignGradient(const float* x, const float* dy, int64_t count, const GridRange& grid,
                    std::optional<uint32_t> mix, float* dx) {
  const uint32_t drops = mix ? ~0u : 0u, seed = mix.value_or(0);
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float v = x[i] / grid.scale - grid.threshold;
    const bool inside = std::fabs(v) <= grid.window;
    const bool passed = (Dropped(seed, static_cast<uint32_t>(i)) & drops) != 0;
    const float gradient = dy[i];
    const float slope = (v >= 0 ? 1.0F : -1.0F) - (inside ? grid.threshold : 0.0F);
    if (!passed) sum += static_cast<double>(slope * gradient);
    dx[i] = passed || inside ? gradient : 0.0F;
  }
  return sum * static_cast<double>(grid.scale);
}

}  // namespace

double GridGradient(const float* x, const float* dy, int64_t count, const GridRange& grid,
                    std::optional<uint32_t> mix, bool step_learns, float* dx) {
  if (grid.bipolar) return SignGradient(x, dy, count, grid, mix, dx);
  constexpr float kMagic = 12582912.0f;  // adding 1.5 * 2^23 rounds half to even
  const float scale = grid.scale, low = grid.low, high = grid.high;
  const uint32_t drops = mix ? ~0u : 0u, seed = mix.value_or(0);
  double sum = 0;
  float steps[kPart];
  for (int64_t begin = 0; begin < count; begin += kPart) {
    const int64_t part = std::min(kPart, count - begin);
    const float *from = x + begin, *gradients = dy + begin;
    float* to = dx + begin;
    const auto first = static_cast<uint32_t>(begin);
    for (int64_t i = 0; i < part; ++i) {
      const float v = from[i] / scale;
      const float above = v < low ? low : v;
      const float clamped = above > high ? high : above;
      const float q = (clamped + kMagic) - kMagic;
      // Values that round to a code count as inside, as in PyTorch: the range itself may end behind
      // the last code.
      const bool inside = v >= low - 0.5f && v <= high + 0.5f;
      const bool passed = (Dropped(seed, first + static_cast<uint32_t>(i)) & drops) != 0;
      const float gradient = gradients[i];
      const float step = (inside ? q - v : q) * gradient;
      steps[i] = passed ? 0.0f : step;
      to[i] = passed || inside ? gradient : 0.0f;
    }
    for (int64_t i = 0; i < part && step_learns; ++i) sum += static_cast<double>(steps[i]);
  }
  return sum * static_cast<double>(scale);
}

void AddGradient(const float* from, float factor, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
}

void ReluGradient(const float* x, const float* dy, int64_t count, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = dy[i];
    dx[i] = x[i] > 0 ? gradient : 0;
  }
}

void ClipGradient(const float* x, const float* y, const float* dy, int64_t count, float* dx) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = dy[i];
    dx[i] = x[i] == y[i] ? gradient : 0;
  }
}

std::vector<int64_t> BroadcastIndex(const Shape& from, const Shape& to) {
  std::vector<int64_t> strides(to.size(), 0);
  int64_t stride = 1;
  for (size_t i = 0; i < from.size(); ++i) {
    const size_t at = from.size() - 1 - i;
    if (from[at] != 1) strides[to.size() - 1 - i] = stride;
    stride *= from[at];
  }
  std::vector<int64_t> out(static_cast<size_t>(NumElements(to)));
  std::vector<int64_t> counter(to.size(), 0);
  int64_t offset = 0;
  for (int64_t& index : out) {
    index = offset;
    for (size_t axis = to.size(); axis-- > 0;) {
      offset += strides[axis];
      if (++counter[axis] < to[axis]) break;
      offset -= strides[axis] * to[axis];
      counter[axis] = 0;
    }
  }
  return out;
}

}  // namespace requant

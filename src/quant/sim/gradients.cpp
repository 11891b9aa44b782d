#include "quant/sim/gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "gradient/drawn.h"

namespace requant {

using gradient::ElementParams;

namespace {

/// Whether an element stays off the grid.
bool Dropped(uint32_t mix, int64_t i) {
  return gradient::Drawn(mix, static_cast<uint32_t>(i)) >> 31 != 0;
}

}  // namespace

void KeepDropped(uint32_t mix, const float* before, int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) {
    const float kept = before[i], value = values[i];
    values[i] = Dropped(mix, i) ? kept : value;
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
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const float v = x[i] / grid.scale - grid.threshold;
    const bool inside = std::fabs(v) <= grid.window;
    const bool passed = mix && Dropped(*mix, i);
    const float gradient = dy[i];
    const float slope = (v >= 0 ? 1.0F : -1.0F) - (inside ? grid.threshold : 0.0F);
    if (!passed) sum += static_cast<double>(slope * gradient);
    dx[i] = passed || inside ? gradient : 0.0F;
  }
  return sum * static_cast<double>(grid.scale);
}

}  // namespace

ElementParams ParamsOfGrid(const GridRange& grid) {
  ElementParams params{gradient::ElementFunction::kGridGradient};
  params.scale = grid.scale;
  params.low = grid.low;
  params.high = grid.high;
  return params;
}

double GridGradient(const float* x, const float* dy, int64_t count, const GridRange& grid,
                    std::optional<uint32_t> mix, bool step_learns, float* dx) {
  if (grid.bipolar) return SignGradient(x, dy, count, grid, mix, dx);
  gradient::ElementSample sample{x, dy, nullptr, dx, count, 0};
  ElementParams params = ParamsOfGrid(grid);
  params.drops = mix ? 1 : 0;
  params.mix = mix.value_or(0);
  params.samples = &sample;
  params.end = 1;
  rq_elements(&params);
  return step_learns ? sample.sum * static_cast<double>(grid.scale) : 0;
}

void AddGradient(const float* from, float factor, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += factor * from[i];
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

#include "quant/grid/block_grid.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>

#include "base/float4.h"

namespace requant {
namespace {

constexpr size_t kLanes = 4;

/// Ranges that are tried: the whole one, and smaller ones in steps of 2 %. Few bits gain by much
/// smaller ones.
int TrialsOf(int bits) { return bits < 4 ? 36 : 24; }

Float4 All(float x) { return Float4{x, x, x, x}; }
Float4 Clamp(Float4 x, Float4 low, Float4 high) {
  x = x > low ? x : low;
  return x < high ? x : high;
}
/// 1.5 * 2^23: near it floats have a distance of 1.
constexpr float kShift = 12582912.0F;
/// The nearest integer of |x| < 2^22.
Float4 Nearest(Float4 x) { return (x + All(kShift)) - All(kShift); }

template <bool kWeighed>
float SumOfErrors(std::span<const float> unit, const float* power, Float4 scale, Float4 low,
                  Float4 high) {
  const Float4 inverse = All(1) / scale;
  Float4 sums[2] = {};
  for (size_t i = 0; i < unit.size(); i += 2 * kLanes) {
    for (size_t half = 0; half < 2; ++half) {
      const Float4 w = Load4(unit.data() + i + half * kLanes);
      const Float4 d = w - scale * Nearest(Clamp(w * inverse, low, high));
      sums[half] += kWeighed ? Load4(power + i + half * kLanes) * d * d : d * d;
    }
  }
  const Float4 sum = sums[0] + sums[1];
  return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

}  // namespace

float BlockSearch::ErrorOf(std::span<const float> power, double scale, double low,
                           double high) const {
  const Float4 step = All(static_cast<float>(scale));
  const Float4 least = All(static_cast<float>(low));
  const Float4 most = All(static_cast<float>(high));
  return power.empty() ? SumOfErrors<false>(unit_, nullptr, step, least, most)
                       : SumOfErrors<true>(unit_, power.data(), step, least, most);
}

BlockGrid BlockSearch::FindSymmetric(std::span<const float> power, float largest) const {
  const double low = -std::ldexp(1, bits_ - 1);
  double best = 1 / -low;
  float least = HUGE_VALF;
  for (int step = 0; step < TrialsOf(bits_); ++step) {
    const double scale = 1 / (-low - 1) * (1.02 - 0.02 * step);
    const float error = ErrorOf(power, scale, low, -low - 1);
    if (error < least) {
      least = error;
      best = scale;
    }
  }
  return {static_cast<float>(best * static_cast<double>(largest)), static_cast<uint8_t>(-low)};
}

BlockGrid BlockSearch::FindAffine(std::span<const float> power, float low, float high,
                                  float largest) const {
  const auto size = static_cast<double>(largest);
  const double bottom = std::min(static_cast<double>(low), 0.0) / size;
  const double top = std::max(static_cast<double>(high), 0.0) / size;
  const double most = std::ldexp(1, bits_) - 1;
  BlockGrid best;
  float least = HUGE_VALF;
  for (int step = 0; step < TrialsOf(bits_); ++step) {
    const double scale = (top - bottom) / most * (1 - 0.02 * step);
    const auto real = static_cast<float>(scale * size);
    if (!(real > 0) || !std::isfinite(real)) continue;
    const double middle = (most - (bottom + top) / scale) / 2;
    for (const double zero : {std::floor(middle), std::ceil(middle)}) {
      const double kept = std::clamp(zero, 0.0, most);
      const float error = ErrorOf(power, scale, -kept, most - kept);
      if (error < least) {
        least = error;
        best = {real, static_cast<uint8_t>(kept)};
      }
    }
  }
  return best;
}

BlockGrid BlockSearch::Find(std::span<const float> weights, std::span<const float> power) {
  BlockGrid none;
  if (symmetric_) none.zero = static_cast<uint8_t>(1 << (bits_ - 1));
  const auto [low, high] = std::minmax_element(weights.begin(), weights.end());
  const float largest = std::max(-*low, *high);
  float zeros = 0;
  for (const float w : weights) zeros += w * 0.0F;  // NaN where a weight is not finite
  if (!(largest > 0) || zeros != 0) return none;
  unit_.resize(weights.size());
  for (size_t i = 0; i < weights.size(); i += kLanes) {
    Store4(unit_.data() + i, Load4(weights.data() + i) / All(largest));
  }
  return symmetric_ ? FindSymmetric(power, largest) : FindAffine(power, *low, *high, largest);
}

void RoundToGrid(std::span<const float> weights, const BlockGrid& grid, int bits, uint8_t* codes) {
  const Float4 scale = All(grid.scale);
  const Float4 low = All(static_cast<float>(-grid.zero));
  const Float4 high = All(static_cast<float>((1 << bits) - 1 - grid.zero));
  for (size_t i = 0; i < weights.size(); i += kLanes) {
    // The lowest bits of such a sum are those of the nearest integer.
    const Float4 shifted = Clamp(Load4(weights.data() + i) / scale, low, high) + All(kShift);
    uint32_t steps[kLanes];
    std::memcpy(steps, &shifted, sizeof steps);
    for (size_t lane = 0; lane < kLanes; ++lane) {
      codes[i + lane] = static_cast<uint8_t>(steps[lane] + grid.zero);
    }
  }
}

}  // namespace requant

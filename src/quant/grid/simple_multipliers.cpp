// Before: s_w comes from the range of the weights, so that m = s_in * s_w / s_out is any number
// After: s_w' = k / 2^16 * s_out / s_in, k = ceil(m * 2^16), or one more than a multiple of 4
// Conditions: no scale grows by more than kMostWidening: m is above some 50 / 2^16, which holds in
//   layers whose outputs add up few products (those that add up many hardly depend on the speed of
//   their requantization). Among 2^16 consecutive accumulators an odd k makes one a tie, and an odd
//   multiple of 2^j makes 2^j of them ties, on which engines disagree: multiples of 4 are taken
//   only if the next k is too far.
// Why: products by such multipliers are exact in float32 if codes have eight bits, so
//   that requantizing takes three instructions for four accumulators instead of seven in float64;
//   a step 1 % wider is 0.1 dB of the weights' rounding noise.
#include "quant/grid/simple_multipliers.h"

#include <algorithm>
#include <cmath>

#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

constexpr double kMostWidening = 1.02;
// outputs of fewer bits have a form of their own (AddNarrowRequantize)
constexpr int kLeastBits = 5;
constexpr size_t kBlock = 8;

/// The least multiple of `unit` that is not below `scale`; 0 if it is too much wider.
float Widened(float scale, double unit) {
  const auto plain = static_cast<double>(scale);
  // a multiplier that is simple already stays
  const double least = std::ceil(plain / unit * (1 - 1e-6));
  for (const double k : {NextWithFewTies(least), least}) {
    const auto widened = static_cast<float>(k * unit);
    if (static_cast<double>(widened) <= kMostWidening * plain &&
        SimpleMultiplier(static_cast<double>(widened) / unit / kSimpleUnits) > 0) {
      return widened;
    }
  }
  return 0;
}

}  // namespace

double NextWithFewTies(double k) { return std::fmod(k, 4) == 0 ? k + 1 : k; }

double SimplifyMultipliers(double input_scale, const TensorQuantizationConfig& output,
                           TensorQuantizationConfig& config) {
  if (config.bits < kLeastBits || output.bits < kLeastBits || config.exotic_weight() ||
      output.exotic_activation() || output.wide() || output.per_channel() ||
      (config.policy & kPowerOf2) || config.formula != ScaleFormula::kOnnx) {
    return 0;
  }
  const double unit = static_cast<double>(output.scale[0]) / input_scale / kSimpleUnits;
  std::vector<float>& scales = config.scale;
  for (size_t begin = 0; begin < scales.size(); begin += kBlock) {
    float block[kBlock];
    const size_t count = std::min(kBlock, scales.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      block[i] = Widened(scales[begin + i], unit);
    }
    if (std::all_of(block, block + count, [](float scale) { return scale > 0; })) {
      std::copy_n(block, count, scales.begin() + static_cast<std::ptrdiff_t>(begin));
    }
  }
  return unit;
}

}  // namespace requant

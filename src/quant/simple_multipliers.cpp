// Before: s_w as the weights' range asks for, m = s_in * s_w / s_out any number
// After:  s_w' = k / 2^16 * s_out / s_in, k = ceil(m * 2^16), or one more than a multiple of 4
// Conditions: no scale grows by more than kMostWidening: m is above some 50 / 2^16, in layers whose
//   outputs add up few products. Those that add up many hardly wait for their requantization. Of
//   2^16 accumulators in a row an odd k makes one a tie, an odd multiple of 2^j 2^j of them, and on
//   ties engines disagree: multiples of 4 are only taken where the next is too far.
// Why: products by such multipliers are exact in float32 where the code is one of eight bits, so
//   that requantizing takes three instructions for four accumulators instead of seven in float64;
//   a step 1 % wider is 0.1 dB of the weights' rounding noise.
#include "quant/simple_multipliers.h"

#include <algorithm>
#include <cmath>

#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

constexpr double kMostWidening = 1.02;
constexpr int kLeastBits = 5;  // below, outputs have a form of their own (AddNarrowRequantize)
constexpr size_t kBlock = 8;

/// The least multiple of `unit` not below `scale`; 0 where that is too much.
float Widened(float scale, double unit) {
  const auto plain = static_cast<double>(scale);
  const double least = std::ceil(plain / unit * (1 - 1e-6));  // one that is simple already stays
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
      output.exotic_activation() || output.per_channel() || (config.policy & kPowerOf2) ||
      config.formula != ScaleFormula::kOnnx) {
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

// Requantization to few codes in 16 bits. It has a file of its own since only networks of few bits
// need it (bindings/cmake/tools_sources.txt).
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <utility>

#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

constexpr int32_t kMostCodes = 2 * kNarrowMiddle;
constexpr int32_t kMostFactor = 32767;
constexpr int32_t kScales = 8;   // scales to try: each rounds differently
constexpr int kSlopeSteps = 16;  // steps of a search, which leave (2/3)^16 of its interval

/// The smallest accumulator whose code is at least `code`; more than `bound` if there is none.
int64_t StepTo(int32_t code, const RequantizeParams& p, int32_t channel, double multiplier,
               int64_t bound) {
  const auto reached = [&](int64_t acc) {
    return ApplyRequantize(static_cast<int32_t>(acc), p, channel) >= code;
  };
  // Usually it is where the real numbers say.
  const double guess = std::ceil((code - p.zero_point - 0.5) / multiplier);
  if (guess > static_cast<double>(-bound) && guess <= static_cast<double>(bound)) {
    const auto at = static_cast<int64_t>(guess);
    if (reached(at) && !reached(at - 1)) return at;
  }
  if (reached(-bound)) return -bound;
  if (!reached(bound)) return bound + 1;
  int64_t above = bound, below = -bound;
  for (const int64_t more : {int64_t{-1}, int64_t{1}}) {
    const double at = guess + static_cast<double>(more);
    if (!(at > static_cast<double>(below) && at < static_cast<double>(above))) continue;
    const auto integer = static_cast<int64_t>(at);
    (reached(integer) ? above : below) = integer;
  }
  while (above - below > 1) {
    const int64_t middle = below + (above - below) / 2;
    (reached(middle) ? above : below) = middle;
  }
  return above;
}

struct In16Bits {
  int32_t scale, factor, bias;
};
struct InFloat {
  float scale, bias;
};

int32_t Product(int64_t acc, int32_t scale, int32_t factor) {
  const auto x = static_cast<int32_t>(
      std::clamp<int64_t>(acc * scale, int64_t{INT16_MIN}, int64_t{INT16_MAX}));
  return (x * factor + (1 << 14)) >> 15;
}

/// The steps of one channel from code to code, and the search for forms that reproduce them.
class Staircase {
 public:
  Staircase(const RequantizeParams& p, int32_t channel, double multiplier, int64_t bound)
      : multiplier_(multiplier), bound_(bound) {
    for (int32_t code = p.lo + 1; code <= p.hi; ++code) {
      const int64_t at = StepTo(code, p, channel, multiplier, bound);
      steps_[count_++] = at;
      if (at > -bound && at <= bound) farthest_ = std::max({farthest_, std::abs(at), 1 - at});
    }
  }

  /// The largest accumulator of the lowest code, clamped to int16.
  int32_t LastLow() const {
    return static_cast<int32_t>(
        std::clamp<int64_t>(steps_[0] - 1, int64_t{INT16_MIN}, int64_t{INT16_MAX}));
  }

  /// The slope of the line that keeps farthest from all steps. The line of the multiplier may pass
  /// one accumulator almost on a step and another just below the next, so that no rounding of it
  /// fits between them. The room for the bias is a concave function of the slope: a ternary search
  /// finds its maximum.
  double BestSlope() const {
    const double spread = multiplier_ / static_cast<double>(std::max<int64_t>(farthest_, 1));
    double low = multiplier_ - spread, high = multiplier_ + spread;
    for (int i = 0; i < kSlopeSteps; ++i) {
      const double third = (high - low) / 3;
      if (Room(low + third) < Room(high - third)) {
        low += third;
      } else {
        high -= third;
      }
    }
    return low + (high - low) / 2;
  }

  /// The form in 16 bits with this slope and shift; scale 0 if there is none.
  In16Bits FindIn16Bits(double slope, int32_t shift) const {
    constexpr In16Bits kNone = {0, 0, 0};
    if (farthest_ > INT16_MAX) return kNone;
    const auto most_scale = static_cast<int32_t>(INT16_MAX / std::max<int64_t>(farthest_, 1));
    for (int32_t i = 0; i < kScales && i < most_scale; ++i) {
      const int32_t scale = most_scale - i;
      const double exact = std::ldexp(slope, shift + 15) / scale;
      if (!(exact < kMostFactor)) break;
      const auto rounded = static_cast<int32_t>(std::lround(exact));
      for (const int32_t factor : {rounded, rounded + 1, std::max(rounded - 1, 0)}) {
        const auto [least, most] = BiasBounds(scale, factor, shift);
        if (least > most) continue;
        return {scale, factor, least + (most - least) / 2};
      }
    }
    return kNone;
  }

  /// The form in float32 with this slope; scale < 0 if there is none.
  InFloat FindInFloat(double slope) const {
    constexpr InFloat kNone = {-1, 0};
    if (farthest_ > kMostExact || static_cast<double>(bound_) * slope > kMostProduct) {
      return kNone;
    }
    const auto scale = static_cast<float>(slope);
    const auto [least, most] = LineBounds(static_cast<double>(scale));
    const InFloat found = {scale, static_cast<float>(least + (most - least) / 2)};
    return least < most && Gives(found) ? found : kNone;
  }

 private:
  /// Float32 holds integers exactly up to here.
  static constexpr int64_t kMostExact = 1 << 24;
  // the product, which is converted to int32 with a bias of the same size
  static constexpr double kMostProduct = 1 << 30;

  static float FloatProduct(int64_t acc, float scale) { return static_cast<float>(acc) * scale; }

  /// The bounds of the bias, [first, second), for which the line through unrounded products reaches
  /// i at the step to code i.
  std::pair<double, double> LineBounds(double slope) const {
    double least = -kMostProduct, most = kMostProduct;
    for (int32_t i = 0; i < count_; ++i) {
      const auto at = static_cast<double>(steps_[i]);
      if (steps_[i] <= bound_) least = std::max(least, i + 1 - at * slope);
      if (steps_[i] > -bound_) most = std::min(most, i + 1 - (at - 1) * slope);
    }
    return {least, most};
  }

  /// The distance of these bounds.
  double Room(double slope) const {
    const auto [least, most] = LineBounds(slope);
    return most - least;
  }

  /// Whether the form gives every step, no matter if the product is rounded by itself or together
  /// with the sum. In doubles the product is exact. A sum that is rounded once and reaches a code
  /// in doubles reaches it in float32, and one that is kMargin below does not: half a unit in the
  /// last place of any number below 16 is less than kMargin.
  bool Gives(const InFloat& form) const {
    constexpr double kMargin = 1.0 / (1 << 20);
    const auto sum = [&](int64_t acc) { return FloatProduct(acc, form.scale) + form.bias; };
    const auto fused = [&](int64_t acc) {
      return static_cast<double>(acc) * static_cast<double>(form.scale) +
             static_cast<double>(form.bias);
    };
    for (int32_t i = 0; i < count_; ++i) {
      const int64_t at = steps_[i];
      const int32_t code = i + 1;
      if (at <= bound_ && (sum(at) < static_cast<float>(code) || fused(at) < code)) return false;
      if (at > -bound_ &&
          (sum(at - 1) >= static_cast<float>(code) || fused(at - 1) >= code - kMargin)) {
        return false;
      }
    }
    return true;
  }

  /// The bounds of the bias for which these parameters give every step.
  std::pair<int32_t, int32_t> BiasBounds(int32_t scale, int32_t factor, int32_t shift) const {
    int32_t least = INT16_MIN, most = INT16_MAX;
    for (int32_t i = 0; i < count_; ++i) {
      const int32_t from = (i + 1 - kNarrowMiddle) * (1 << shift) - (1 << (shift - 1));
      const int64_t at = steps_[i];
      if (at <= bound_) least = std::max(least, from - Product(at, scale, factor));
      if (at > -bound_) most = std::min(most, from - 1 - Product(at - 1, scale, factor));
      if (least > most) break;
    }
    return {least, most};
  }

  double multiplier_;
  int64_t bound_, farthest_ = 0;
  int32_t count_ = 0;
  int64_t steps_[kMostCodes - 1] = {};
};

}  // namespace

NarrowChannels AddNarrowRequantize(PreparedRequantize& prepared,
                                   const std::vector<int64_t>& bounds) {
  NarrowChannels found;
  RequantizeParams p = prepared.Params();
  if (p.hi - p.lo >= kMostCodes) return found;
  const auto channels = static_cast<size_t>(prepared.channels_);
  for (auto* values : {&prepared.narrow_scale_, &prepared.narrow_factor_, &prepared.narrow_bias_}) {
    values->assign(channels + kRequantizePadding, 0);
  }
  std::vector<float>& float_scale = prepared.float_scale_;
  std::vector<float>& float_bias = prepared.float_bias_;
  if (float_scale.empty()) {
    float_scale.assign(channels + kRequantizePadding, 0);
    float_bias.assign(channels + kRequantizePadding, 0);
    std::fill_n(float_scale.begin(), channels, -1.0f);
  }
  const double farthest = std::max(p.hi - p.zero_point, p.zero_point - p.lo) - 0.5;
  int32_t shift = kNarrowFullShift;  // less if the zero point is not in the middle of the codes
  while (std::ldexp(farthest, shift) > INT16_MAX) --shift;
  std::vector<int32_t> last_low(channels + kRequantizePadding, 0);
  bool has_last_low = p.hi - p.lo == 1;
  for (size_t c = 0; c < channels; ++c) {
    const int64_t bound = bounds[bounds.size() == 1 ? 0 : c];
    if (bound > INT32_MAX) {
      has_last_low = false;
      continue;
    }
    const double multiplier = p.mode == RequantizeMode::kFloat
                                  ? static_cast<double>(p.scale[c])
                                  : std::ldexp(static_cast<double>(p.multiplier[c]), -p.shift[c]);
    const Staircase steps(p, static_cast<int32_t>(c), multiplier, bound);
    if (has_last_low) last_low[c] = steps.LastLow();
    In16Bits integers = steps.FindIn16Bits(multiplier, shift);
    if (integers.scale == 0) integers = steps.FindIn16Bits(steps.BestSlope(), shift);
    prepared.narrow_scale_[c] = integers.scale;
    prepared.narrow_factor_[c] = integers.factor;
    prepared.narrow_bias_[c] = integers.bias;
    found.in_16_bits += integers.scale != 0 ? 1 : 0;
    if (float_scale[c] < 0) {
      InFloat floats = steps.FindInFloat(multiplier);
      if (floats.scale < 0) floats = steps.FindInFloat(steps.BestSlope());
      float_scale[c] = floats.scale;
      float_bias[c] = floats.bias;
    }
    found.in_float += float_scale[c] >= 0 ? 1 : 0;
  }
  if (has_last_low) prepared.narrow_last_low_ = std::move(last_low);
  if (found.in_16_bits + found.in_float > 0) prepared.params_.narrow.shift = shift;
  return found;
}

}  // namespace requant

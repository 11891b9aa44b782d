#include "numeric/requantize_prepare.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"

namespace requant {
namespace {

/// |acc * M| must stay below this for kDouble: x = acc * M * 2^-t, and x + 2^-(t+1) if ties occur,
/// are then exact in the 53 bits of a float64.
constexpr double kExactProduct = 9007199254740991.0;         // 2^53 - 1
constexpr double kExactProductWithTie = 4503599627370495.0;  // 2^52 - 1

/// x = acc * k / 2^16 and x + b, b = zero_point - lo + 1/2 in (0, 256), are exact in the 24 bits of
/// a float32 if 0 <= x + b < 256; otherwise rounding keeps them outside of that range, and k <=
/// 2^15 keeps them within int32.
constexpr int32_t kMostSimpleCode = 255;

/// Is acc * M an odd multiple of 2^(t-1), that is, a tie, for some acc up to `bound`? With M = odd
/// * 2^j, acc would have to be a multiple of 2^(t-1-j).
bool CanTie(FixedMultiplier m, int64_t bound) {
  if (m.multiplier == 0) return false;
  const int zeros = m.shift - 1 - __builtin_ctz(static_cast<unsigned>(m.multiplier));
  return zeros <= 0 || (zeros < 62 && bound >= (int64_t{1} << zeros));
}

/// Does every acc up to `bound` requantize to 0?
bool AlwaysZero(FixedMultiplier m, int64_t bound) {
  return static_cast<double>(bound) * m.multiplier < std::ldexp(1.0, m.shift - 1);
}

}  // namespace

double SimpleMultiplier(double m) {
  const double k = std::round(m * kSimpleUnits);
  if (!(k >= 1 && k <= kSimpleUnits / 2)) return 0;
  return std::fabs(m * kSimpleUnits - k) <= std::ldexp(k, -23) ? k / kSimpleUnits : 0;
}

FixedMultiplier MakeFixedMultiplier(double m) {
  if (!std::isfinite(m) || m < 0) {
    Fail(ErrorCode::kInvalidQuantization,
         "a requantization multiplier is negative or not a finite number",
         {.hint = "check the scales of the operator's inputs, weights and output"});
  }
  if (m == 0) return {};
  int exponent = 0;
  const double significand = std::frexp(m, &exponent);
  int64_t multiplier = static_cast<int64_t>(std::round(significand * 2147483648.0));
  if (multiplier == (int64_t{1} << 31)) {
    multiplier /= 2;
    ++exponent;
  }
  const int shift = 31 - exponent;
  if (shift > 62) return {};
  if (shift < 1) return {INT32_MAX, 1};
  return {static_cast<int32_t>(multiplier), shift};
}

RequantizeParams PreparedRequantize::Params() const {
  RequantizeParams params = params_;
  params.multiplier = multiplier_.data();
  params.shift = shift_.data();
  params.scale = scale_.data();
  params.headroom = headroom_.data();
  params.exact_scale = exact_scale_.data();
  params.exact_tie = has_ties_ ? exact_tie_.data() : nullptr;
  params.narrow.scale = narrow_scale_.data();
  params.narrow.factor = narrow_factor_.data();
  params.narrow.bias = narrow_bias_.data();
  if (!narrow_last_low_.empty()) params.narrow.last_low = narrow_last_low_.data();
  if (!float_scale_.empty()) {
    params.float_scale = float_scale_.data();
    params.float_bias = float_bias_.data();
  }
  return params;
}

PreparedRequantize PrepareRequantize(RequantizeMode mode, const std::vector<double>& multipliers,
                                     const std::vector<int64_t>& bounds, int32_t zero_point,
                                     int32_t lo, int32_t hi) {
  const size_t channels = multipliers.size();
  if (bounds.size() != channels && bounds.size() != 1) {
    Fail(ErrorCode::kInternal, "requantize: one accumulator bound, or one for each channel");
  }
  if (lo > hi) Fail(ErrorCode::kInvalidArgument, "requantize: the clamp's bounds are exchanged");
  const auto bound_of = [&](size_t c) { return bounds[bounds.size() == 1 ? 0 : c]; };

  PreparedRequantize out;
  out.channels_ = static_cast<int32_t>(channels);
  const size_t padded = channels + kRequantizePadding;
  out.multiplier_.assign(padded, 0);
  out.shift_.assign(padded, 31);
  out.scale_.assign(padded, 0.0f);
  out.headroom_.assign(padded, 0);
  out.exact_scale_.assign(padded, 0.0);
  out.exact_tie_.assign(padded, 0.0);
  const bool can_be_simple = mode == RequantizeMode::kUpward && zero_point >= lo &&
                             zero_point - lo <= kMostSimpleCode && hi - lo <= kMostSimpleCode;
  std::vector<float> float_scale(padded, 0.0f);
  bool any_simple = false;

  double largest_product = 0, largest_result = 0, largest_float = 0;
  bool within_int32 = true;
  for (size_t c = 0; c < channels; ++c) {
    const double simple = mode == RequantizeMode::kUpward ? SimpleMultiplier(multipliers[c]) : 0;
    FixedMultiplier m = MakeFixedMultiplier(simple > 0 ? simple : multipliers[c]);
    // A channel whose results are all 0 (dead filters have tiny scales) must not spoil the shift it
    // shares with its neighbors. This excludes gemmlowp, whose first rounding can lift a value over
    // one half.
    if (mode == RequantizeMode::kUpward && AlwaysZero(m, bound_of(c))) m = {};
    if (m.multiplier != 0) float_scale[c] = simple > 0 ? static_cast<float>(simple) : -1;
    any_simple = any_simple || simple > 0;
    out.multiplier_[c] = m.multiplier;
    out.shift_[c] = m.shift;
    const double limited = LimitedMultiplier(multipliers[c]);
    out.scale_[c] = static_cast<float>(limited);
    out.exact_scale_[c] = std::ldexp(static_cast<double>(m.multiplier), -m.shift);
    out.exact_tie_[c] = std::ldexp(1.0, -(m.shift + 1));
    const double bound = static_cast<double>(bound_of(c));
    out.has_ties_ = out.has_ties_ || CanTie(m, bound_of(c));
    largest_product = std::max(largest_product, bound * m.multiplier);
    largest_result = std::max(largest_result, bound * out.exact_scale_[c]);
    largest_float = std::max(largest_float, bound * limited);
    within_int32 = within_int32 && bound_of(c) <= INT32_MAX;
    while (out.headroom_[c] < 30 && std::ldexp(bound, out.headroom_[c] + 1) < 2147483648.0) {
      ++out.headroom_[c];
    }
  }
  if (can_be_simple && any_simple) {
    out.float_scale_ = std::move(float_scale);
    out.float_bias_.assign(padded, static_cast<float>(zero_point - lo) + 0.5f);
  }
  const bool exact_in_double =
      largest_product < (out.has_ties_ ? kExactProductWithTie : kExactProduct) &&
      largest_result < 2147483000.0;
  out.params_.mode = mode;
  out.params_.small_products = largest_float < 2097152.0 ? 1 : 0;
  out.params_.path = exact_in_double ? RequantizePath::kDouble
                     : within_int32  ? RequantizePath::kShift
                                     : RequantizePath::kScalar;
  out.params_.zero_point = zero_point;
  out.params_.lo = lo;
  out.params_.hi = hi;
  return out;
}

}  // namespace requant

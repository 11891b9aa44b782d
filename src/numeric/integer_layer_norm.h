#pragma once
// The normative layer normalization of a row of codes, in integers: scalar.
//
//   y_i = gamma_i (x_i - mean) / sqrt(variance + epsilon) + beta_i,   x = s_x (q - z_x)
//
// With n elements, S1 the sum and S2 the sum of squares of the codes, all of this is exact:
//
//   c_i = n q_i - S1 = n (x_i - mean) / s_x,   V = n S2 - S1^2 = n^2 variance / s_x^2
//
// RMSNormalization has z_x for the mean: c_i = n (q_i - z_x), V = n sum (q_j - z_x)^2.
//
// 1. W = V + n^2 epsilon / s_x^2 as 62 bits and an even power of two; R = floor((2^61 - 1) /
//    floor(sqrt(W))), which has 31 bits.
// 2. a_i = c_i R in units of 2^-22: the normalized value, at most sqrt(n).
// 3. The code is floor((a_i G_i + B_i) / 2^shift), clamped: G_i is gamma_i / s_y as int32, with the
//    same power of two for all channels; B_i holds beta_i / s_y, z_y and the half that rounds.
//
// A code differs from y_i / s_y + z_y (clamped) by at most
//
//   1/2 + (gamma / s_y) (2^-23 + sqrt(n) 2^-28) + sqrt(n) (2 + beta / s_y + |z_y|) 2^-38
//
// steps, with gamma and beta the largest magnitudes: the root and R are rounded by less than 2^-30
// of themselves each, a_i by 2^-23, and G_i by 2^-30 of the largest gamma_i / s_y or by the last
// summand, if beta / s_y takes the bits.
#include <stddef.h>
#include <stdint.h>

#include <vector>

namespace requant {

/// The longest row: with more elements V would have more than 62 bits.
inline constexpr int64_t kLongestIntegerRow = 32768;
inline constexpr int32_t kNormalizedBits = 22;  // of a_i, below the point

struct IntegerLayerNorm {
  int32_t length = 0;
  bool center = true;
  int32_t zero_point = 0;  ///< of x; used without `center`
  uint64_t epsilon = 0;    ///< n^2 epsilon / s_x^2, in [2^61, 2^62) or 0
  int32_t epsilon_exponent = 0;
  std::vector<int32_t> gains;    ///< G_i
  std::vector<int64_t> offsets;  ///< B_i
  int32_t shift = 0;
  int32_t lo = 0, hi = 255;  ///< the codes of y
};

struct LayerNormScales {
  float x = 1;
  int32_t x_zero_point = 0;
  float y = 1;
  int32_t y_zero_point = 0;
};

/// Sets everything but `lo` and `hi`. `gamma` has an entry for each element of the row, `beta` too
/// or none. Returns false where int32 does not hold the results: a gamma / s_y beyond 2^22, a beta
/// / s_y beyond 2^29, numbers that are not finite, or a row that is too long.
inline bool MakeIntegerLayerNorm(const std::vector<double>& gamma, const std::vector<double>& beta,
                                 const LayerNormScales& scales, double epsilon, bool center,
                                 IntegerLayerNorm& out) {
  const auto length = static_cast<int64_t>(gamma.size());
  if (length < 1 || length > kLongestIntegerRow || (!beta.empty() && beta.size() != gamma.size()) ||
      !(epsilon >= 0 && epsilon < 1e30)) {
    return false;
  }
  const double y = scales.y, x = scales.x;
  double largest_gain = 0, largest_offset = 0;
  for (size_t i = 0; i < gamma.size(); ++i) {
    const double gain = __builtin_fabs(gamma[i] / y);
    const double offset = beta.empty() ? 0 : __builtin_fabs(beta[i] / y);
    if (!(gain <= 4194304.0) || !(offset <= 536870912.0)) return false;
    if (gain > largest_gain) largest_gain = gain;
    if (offset > largest_offset) largest_offset = offset;
  }
  out.length = static_cast<int32_t>(length);
  out.center = center;
  out.zero_point = scales.x_zero_point;
  const double elements = static_cast<double>(length);
  int exponent = 0;
  const double fraction = __builtin_frexp(elements * elements * epsilon / (x * x), &exponent);
  out.epsilon = static_cast<uint64_t>(__builtin_ldexp(fraction, 62));
  out.epsilon_exponent = exponent - 62;
  // |a G| < 2^61 and |B| < 2^61.
  const auto bits = [](double value) {
    int power = 0;
    (void)__builtin_frexp(value, &power);
    return power;
  };
  const int of_gain = kNormalizedBits + 30 - (largest_gain > 0 ? bits(largest_gain) : -30);
  const int of_offset = 60 - bits(largest_offset + __builtin_abs(scales.y_zero_point) + 1);
  out.shift = of_gain < of_offset ? of_gain : of_offset;
  out.gains.clear();
  out.offsets.clear();
  for (size_t i = 0; i < gamma.size(); ++i) {
    const double gain = __builtin_ldexp(gamma[i] / y, out.shift - kNormalizedBits);
    const double offset = (beta.empty() ? 0 : beta[i] / y) + scales.y_zero_point + 0.5;
    out.gains.push_back(static_cast<int32_t>(__builtin_nearbyint(gain)));
    out.offsets.push_back(
        static_cast<int64_t>(__builtin_nearbyint(__builtin_ldexp(offset, out.shift))));
  }
  return true;
}

/// floor(sqrt(w)) of w in [2^60, 2^62), by Newton's method from above.
inline uint64_t IntegerRoot(uint64_t w) {
  uint64_t root = uint64_t{1} << 31;
  for (;;) {
    const uint64_t next = (root + w / root) >> 1;
    if (next >= root) return root;
    root = next;
  }
}

/// The numbers that turn the codes of one row into normalized values.
struct LayerNormRow {
  int32_t length = 0, mean = 0;  ///< c = length * q - mean, within int32
  int32_t factor = 0;            ///< R
  int32_t shift = 1;             ///< a = (c * R + half) >> shift
};

/// The row of codes q - `flip`, whose sum and sum of squares are given; `flip` is any number.
inline LayerNormRow PrepareLayerNormRow(const IntegerLayerNorm& norm, int64_t sum, int64_t squares,
                                        int32_t flip) {
  const int64_t n = norm.length;
  const int64_t zero = norm.zero_point - flip;
  LayerNormRow row;
  row.length = norm.length;
  row.mean = static_cast<int32_t>(norm.center ? sum : n * zero);
  const int64_t spread =
      norm.center ? n * squares - sum * sum : n * (squares - 2 * zero * sum + n * zero * zero);
  if (spread == 0) return row;  // all c are 0
  const auto variance = static_cast<uint64_t>(spread);
  // Both summands get the larger one's power of two. V is below 2^62.
  const int32_t up = __builtin_clzll(variance) - 2;
  const bool by_epsilon = norm.epsilon != 0 && norm.epsilon_exponent > -up;
  int32_t exponent = by_epsilon ? norm.epsilon_exponent : -up;
  const auto aligned = [exponent](uint64_t value, int32_t own) {
    const int32_t by = exponent - own;
    return by > 63 ? 0 : value >> by;
  };
  uint64_t w = aligned(variance << up, -up);
  if (norm.epsilon != 0) w += aligned(norm.epsilon, norm.epsilon_exponent);
  if ((exponent & 1) != 0) {
    w >>= 1;
    ++exponent;
  }
  if (w >= uint64_t{1} << 62) {
    w >>= 2;
    exponent += 2;
  }
  row.shift = 61 - kNormalizedBits + exponent / 2;
  if (row.shift > 62) {  // |c R| < 2^62: every a rounds to 0
    row.shift = 62;
    return row;
  }
  row.factor = static_cast<int32_t>(((uint64_t{1} << 61) - 1) / IntegerRoot(w));
  return row;
}

/// The code of one element.
inline int32_t LayerNormCode(const IntegerLayerNorm& norm, const LayerNormRow& row, int32_t q,
                             size_t at) {
  const int64_t centered = int64_t{row.length} * q - row.mean;
  const int64_t normal = (centered * row.factor + (int64_t{1} << (row.shift - 1))) >> row.shift;
  const int64_t code = (normal * norm.gains[at] + norm.offsets[at]) >> norm.shift;
  return static_cast<int32_t>(code < norm.lo ? norm.lo : code > norm.hi ? norm.hi : code);
}

}  // namespace requant

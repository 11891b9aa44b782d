#pragma once
// Preparation (ahead of time, hosted C++) of what numeric/requantize.h applies.
#include <cstdint>
#include <memory>
#include <vector>

#include "numeric/requantize.h"

namespace requant {

/// Decomposes m >= 0: significand, exponent = frexp(m); M = round(significand * 2^31); M == 2^31 is
/// halved and the exponent raised; shift = 31 - exponent. (TVM src/relay/qnn/utils.cc.) m == 0 and
/// m < about 2^-32 (shift > 62, where every int32 requantizes to 0) give multiplier 0. m >= 2^30
/// (shift < 1) gives 2^30 - 1/2, which takes every accumulator but 0 beyond all codes as well.
/// Throws Error when m is negative or not finite.
FixedMultiplier MakeFixedMultiplier(double m);

/// At most MakeFixedMultiplier's largest.
inline double LimitedMultiplier(double m) { return m < 1073741823.5 ? m : 1073741823.5; }

/// k / 2^16 for a whole k in [1, 2^15] where that is m to float32's precision (a relative 2^-23),
/// else 0. With such a multiplier products and codes are exact in float32: PrepareRequantize.
double SimpleMultiplier(double m);
inline constexpr double kSimpleUnits = 65536;

/// How many channels have a form of NarrowRequantize, and how many one in float32.
struct NarrowChannels {
  int32_t in_16_bits = 0, in_float = 0;
};

/// Owns the arrays behind a RequantizeParams. Movable; Params() stays valid while the object lives.
class PreparedRequantize {
 public:
  PreparedRequantize() = default;

  /// Pointers into this object, ready for a kernel.
  RequantizeParams Params() const;
  int32_t channels() const { return channels_; }
  /// All members, for whatever writes and reads them.
  template <typename Archive>
  void Fields(Archive& archive) {
    archive.Fields(channels_, has_ties_, params_, multiplier_, shift_, headroom_, scale_,
                   exact_scale_, exact_tie_, float_scale_, float_bias_, narrow_scale_,
                   narrow_factor_, narrow_bias_, narrow_last_low_);
  }

 private:
  friend NarrowChannels AddNarrowRequantize(PreparedRequantize& prepared,
                                            const std::vector<int64_t>& bounds);
  friend PreparedRequantize PrepareRequantize(RequantizeMode mode,
                                              const std::vector<double>& multipliers,
                                              const std::vector<int64_t>& bounds,
                                              int32_t zero_point, int32_t lo, int32_t hi);
  int32_t channels_ = 0;
  bool has_ties_ = false;
  RequantizeParams params_;  // its pointers are filled by Params()
  std::vector<int32_t> multiplier_, shift_, headroom_;
  std::vector<float> scale_, float_scale_, float_bias_;
  std::vector<double> exact_scale_, exact_tie_;
  std::vector<int32_t> narrow_scale_, narrow_factor_, narrow_bias_, narrow_last_low_;
};

/// Computes every array for `multipliers` (one per output channel, m_c = s_in * s_w[c] / s_out) and
/// picks the fastest exact vector path. `bounds` holds per channel the largest |accumulator| that
/// can occur, bias included (one entry stands for all channels; int32 range when unknown: pass
/// 2^31). The output is clamp(zero_point + ..., lo, hi) with lo <= hi. In mode kUpward a multiplier
/// that is k / 2^16 to float32's precision, which is all that scales have, is exactly that. In
/// every mode multipliers are limited (LimitedMultiplier). Throws Error on sizes that disagree or a
/// multiplier MakeFixedMultiplier refuses.
PreparedRequantize PrepareRequantize(RequantizeMode mode, const std::vector<double>& multipliers,
                                     const std::vector<int64_t>& bounds, int32_t zero_point,
                                     int32_t lo, int32_t hi);

/// Adds the forms of NarrowRequantize, and those in float32, for every channel whose accumulators,
/// within `bounds` as above, they give the same codes for: a requantization is a staircase, so that
/// is proved at both sides of every step. For clamps to at most 16 codes.
NarrowChannels AddNarrowRequantize(PreparedRequantize& prepared,
                                   const std::vector<int64_t>& bounds);

}  // namespace requant

#pragma once
// Preparation (ahead of time, hosted C++) of the parameters of numeric/requantize.h.
#include <cstdint>
#include <memory>
#include <vector>

#include "numeric/requantize.h"

namespace requant {

/// Decomposes m >= 0: significand, exponent = frexp(m); M = round(significand * 2^31); M == 2^31 is
/// halved and the exponent incremented; shift = 31 - exponent. (TVM src/relay/qnn/utils.cc.) m == 0
/// and m < about 2^-32 (shift > 62, where every int32 requantizes to 0) give multiplier 0. m >=
/// 2^30 (shift < 1) gives 2^30 - 1/2, which takes every accumulator but 0 beyond all codes as well.
/// Throws Error if m is negative or not finite.
FixedMultiplier MakeFixedMultiplier(double m);

/// Limits a multiplier to MakeFixedMultiplier's largest.
inline double LimitedMultiplier(double m) { return m < 1073741823.5 ? m : 1073741823.5; }

/// k / 2^16 for an integer k in [1, 2^15] that equals m to float32's precision (a relative 2^-23),
/// else 0. With such a multiplier products and codes are exact in float32; see PrepareRequantize.
double SimpleMultiplier(double m);
inline constexpr double kSimpleUnits = 65536;

/// The number of channels that have a form of NarrowRequantize, and of those with one in float32.
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
  /// All members, for a visitor that writes, reads or counts them.
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
  RequantizeParams params_;  // Params() fills in its pointers
  std::vector<int32_t> multiplier_, shift_, headroom_;
  std::vector<float> scale_, float_scale_, float_bias_;
  std::vector<double> exact_scale_, exact_tie_;
  std::vector<int32_t> narrow_scale_, narrow_factor_, narrow_bias_, narrow_last_low_;
};

/// Computes every array for `multipliers` (one per output channel, m_c = s_in * s_w[c] / s_out) and
/// picks the fastest exact vector path. `bounds` holds per channel the largest |accumulator| that
/// can occur, bias included (one entry stands for all channels; pass 2^31 if unknown). The output
/// is clamp(zero_point + ..., lo, hi) with lo <= hi. Mode kUpward replaces a multiplier that is k /
/// 2^16 to float32's precision (all the precision that scales have) by exactly that. All modes
/// limit multipliers (LimitedMultiplier). Throws Error for sizes that disagree and for multipliers
/// that MakeFixedMultiplier rejects.
PreparedRequantize PrepareRequantize(RequantizeMode mode, const std::vector<double>& multipliers,
                                     const std::vector<int64_t>& bounds, int32_t zero_point,
                                     int32_t lo, int32_t hi);

/// Adds the forms of NarrowRequantize, and those in float32, for every channel for which they give
/// the same codes for all accumulators within `bounds` (as above). A requantization is a staircase,
/// so checking both sides of every step proves this. For clamps to at most 16 codes.
NarrowChannels AddNarrowRequantize(PreparedRequantize& prepared,
                                   const std::vector<int64_t>& bounds);

}  // namespace requant

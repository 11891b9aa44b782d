#pragma once
// How the outputs of a convolution by table lookup are made: what its vector kernel and the planner
// must agree on. Freestanding.
#include "kernels/bitserial/lookup.h"
#include "kernels/conv/can_make_codes.h"

namespace requant::bitserial {

/// What outputs of two codes are made of by comparing with a threshold (lookup_bits.h): sums,
/// bytes, or nothing.
enum class BitSource : int32_t { kNone, kSums, kBytes };

/// Whether the sums of all segments may be more than 16 bits hold.
inline bool HasWideSums(const LookupHeader& header, const LookupShape& s) {
  const int32_t range = header.input_range < 1 ? 1 : header.input_range;
  return int64_t{s.taps} * s.slices * kSlice * range * (header.planes == 2 ? 3 : 1) > 65535;
}

/// h of lookup_bits.h; 3 if there is none.
inline int32_t HalvesOf(const LookupHeader& header) {
  for (int32_t h = 0; h <= 2; ++h) {
    if (-2 * header.offset == h * header.scale) return h;
  }
  return 3;
}

/// What keeps the left side in lookup_bits.h within +-127, up to which sum of a window's codes, and
/// of how many codes of one bit that is worth trying: a half of them are set in the mean.
inline int32_t BitMiddle(int32_t halves) { return 127 * (halves - 1); }
inline constexpr int32_t kMostBits = 254;
inline constexpr int32_t kTriedBits = 400;

/// The values of a residual, and what they are less than its codes.
inline const QAddRange& ResidualRange(const ConvQ8Params* p) {
  const QAddNarrow& add = p->addition.narrow;
  return p->residual_first != 0 ? add.a_range : add.b_range;
}
inline int32_t ResidualZero(const ConvQ8Params* p) {
  return p->residual_first != 0 ? p->addition.a_zero : p->addition.b_zero;
}

/// What to compare if all channels have thresholds.
inline BitSource FindBits(const ConvQ8Params* p, const LookupHeader& header, const LookupShape& s) {
  if (HasWideSums(header, s) || !conv::CanMakeCodes(p) ||
      p->requantize.narrow.last_low == nullptr) {
    return BitSource::kNone;
  }
  const QAddRange& range = ResidualRange(p);
  if (p->residual != nullptr && (range.hi < range.lo || range.hi - range.lo > 15)) {
    return BitSource::kNone;
  }
  // One code has any number of channels.
  const bool fit = s.taps == 1 && s.slices <= s.segment && header.planes == 1 &&
                   HalvesOf(header) <= 2 && s.slices * kSlice * header.input_range <= kTriedBits;
  return fit ? BitSource::kBytes : BitSource::kSums;
}

}  // namespace requant::bitserial

#pragma once
// Decides how convolution by table lookup makes its outputs. The vector kernel and the planner must
// agree on it. Freestanding.
#include "kernels/bitserial/lookup.h"
#include "kernels/conv/narrow/can_make_codes.h"
#include "numeric/few_bits.h"

namespace requant::bitserial {

/// The numbers that the kernel compares with a threshold to make outputs of two codes
/// (lookup_bits.h): int16 sums, bytes, or nothing.
enum class BitSource : int32_t { kNone, kSums, kBytes };

/// Whether the sums of all segments together may exceed 16 bits.
inline bool HasWideSums(const LookupHeader& header, const LookupShape& s) {
  const int32_t range = header.input_range < 1 ? 1 : header.input_range;
  return int64_t{s.taps} * s.slices * kSlice * range * (header.planes == 2 ? 3 : 1) > 65535;
}

/// h of lookup_bits.h, or 3 if h is not 0, 1 or 2.
inline int32_t HalvesOf(const LookupHeader& header) {
  for (int32_t h = 0; h <= 2; ++h) {
    if (-2 * header.offset == h * header.scale) return h;
  }
  return 3;
}

/// BitMiddle centers the left side of lookup_bits.h within +-127 while a window's codes sum to at
/// most kMostBits. Up to kTriedBits codes of one bit are worth trying, since half of them are set
/// on average.
inline int32_t BitMiddle(int32_t halves) { return 127 * (halves - 1); }
inline constexpr int32_t kMostBits = 254;
inline constexpr int32_t kTriedBits = 400;

/// The range of a residual's values, and the zero point by which they are less than its codes.
inline const QAddRange& ResidualRange(const ConvQ8Params* p) {
  const QAddNarrow& add = p->addition.narrow;
  return p->residual_first != 0 ? add.a_range : add.b_range;
}
inline int32_t ResidualZero(const ConvQ8Params* p) {
  return p->residual_first != 0 ? p->addition.a_zero : p->addition.b_zero;
}

/// The numbers that the kernel compares if all channels have thresholds.
inline BitSource FindBits(const ConvQ8Params* p, const LookupHeader& header, const LookupShape& s) {
  if (HasWideSums(header, s) || !conv::CanMakeCodes(p) ||
      p->requantize.narrow.last_low == nullptr) {
    return BitSource::kNone;
  }
  const QAddRange& range = ResidualRange(p);
  if (p->residual != nullptr && (range.hi < range.lo || range.hi - range.lo > kFewBitsRange)) {
    return BitSource::kNone;
  }
  // An output of one code may have any number of channels.
  const bool fit = s.taps == 1 && s.slices <= s.segment && header.planes == 1 &&
                   HalvesOf(header) <= 2 && s.slices * kSlice * header.input_range <= kTriedBits;
  return fit ? BitSource::kBytes : BitSource::kSums;
}

}  // namespace requant::bitserial

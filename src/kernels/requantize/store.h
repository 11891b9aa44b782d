#pragma once
// Narrows int16 results of eight channels to bytes and stores two rows at once. Vector code,
// freestanding.
#include "base/simd.h"
#include "kernels/requantize/kernel.h"

namespace requant {

/// The limits to apply after the narrowing, which saturates to uint8: none for the whole of uint8,
/// only the upper one for uint8 from 0 on, or both.
enum class Clamp { kNone, kUpper, kBoth };

/// Where and how results are stored. A signed result is computed as an unsigned one that is 128
/// higher; `flip` subtracts these 128.
struct Store {
  v128_t lo, hi, flip;
  Clamp clamp;
  uint8_t* output;
  int32_t stride, channels;
  int32_t bias;  // 128 for a signed result, else 0

  /// Makes a Store whose output and channels the caller has yet to set.
  RQ_INLINE Store Of(const RequantizeParams& p, int32_t stride, int32_t output_signed) {
    Store s;
    s.bias = output_signed ? 128 : 0;
    s.lo = wasm_i8x16_splat(static_cast<int8_t>(p.lo + s.bias));
    s.hi = wasm_i8x16_splat(static_cast<int8_t>(p.hi + s.bias));
    s.flip = wasm_i8x16_splat(static_cast<int8_t>(s.bias));
    s.clamp = output_signed || p.lo > 0 ? Clamp::kBoth : p.hi < 255 ? Clamp::kUpper : Clamp::kNone;
    s.stride = stride;
    return s;
  }
};

template <Clamp kClamp>
RQ_INLINE v128_t ToBytes(const Store& s, v128_t first, v128_t second) {
  const v128_t bytes = wasm_u8x16_narrow_i16x8(first, second);
  if (kClamp == Clamp::kNone) return bytes;
  if (kClamp == Clamp::kUpper) return wasm_u8x16_min(bytes, s.hi);
  return wasm_v128_xor(wasm_u8x16_min(wasm_u8x16_max(bytes, s.lo), s.hi), s.flip);
}

/// Stores all eight channels of every row.
template <Clamp kClamp, typename Step>
RQ_INLINE void ForWholeRows(const int32_t* acc, int32_t acc_stride, int32_t rows, const Store& s,
                            Step step) {
  uint8_t* out = s.output;
  for (; rows >= 2; rows -= 2) {
    const v128_t bytes = ToBytes<kClamp>(s, step(acc), step(acc + acc_stride));
    wasm_v128_store64_lane(out, bytes, 0);
    wasm_v128_store64_lane(out + s.stride, bytes, 1);
    acc += 2 * acc_stride;
    out += 2 * static_cast<ptrdiff_t>(s.stride);
  }
  if (rows > 0) {
    const v128_t last = step(acc);
    wasm_v128_store64_lane(out, ToBytes<kClamp>(s, last, last), 0);
  }
}

/// Runs step(row of acc), which gives eight int16 with the zero point included, over all rows and
/// stores the bytes.
template <typename Step>
RQ_INLINE void ForRows(const int32_t* acc, int32_t acc_stride, int32_t rows, const Store& s,
                       Step step) {
  if (s.channels >= 8 && s.clamp == Clamp::kNone) {
    ForWholeRows<Clamp::kNone>(acc, acc_stride, rows, s, step);
  } else if (s.channels >= 8 && s.clamp == Clamp::kUpper) {
    ForWholeRows<Clamp::kUpper>(acc, acc_stride, rows, s, step);
  } else if (s.channels >= 8) {
    ForWholeRows<Clamp::kBoth>(acc, acc_stride, rows, s, step);
  } else {
    uint8_t* out = s.output;
    for (; rows > 0; --rows, acc += acc_stride, out += s.stride) {
      const v128_t row = step(acc);
      simd::StorePartialBytes(out, ToBytes<Clamp::kBoth>(s, row, row), s.channels);
    }
  }
}

}  // namespace requant

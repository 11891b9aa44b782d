#pragma once
// Outputs of two codes: the end of vector_lookup.cpp where every sum is compared with a threshold
// of its channel, and a residual of few codes added by looking the sum of both up. Vector code,
// freestanding.
//
// Sums of int16 are compared as they are. Where windows are one pixel and all lookups of an output
// fit one byte, that is compared: with r the sum of a window's codes, S that of an output's lookups
// and h = -2 offset / scale, which is 0, 1 or 2 where the weights are {0, s}, {-s, s} / 2 and
// {-s, 0}, an accumulator is base + scale * S - scale * h * r / 2. It is more than `last_low` where
//
//   S - floor(h r / 2)  >  floor((last_low - base + scale * (h r mod 2) / 2) / scale)
//
// and since S is one of 0..r, the left side less (1 - h) * 120 is within +-120 where r is at most
// 240.
#include "base/simd.h"
#include "kernels/bitserial/lookup.h"
#include "kernels/bitserial/lookup_codes.h"
#include "kernels/bitserial/lookup_tile.h"

namespace requant::bitserial {

/// What is compared: sums, bytes, or nothing.
enum class BitSource : int32_t { kNone, kSums, kBytes };

/// What keeps the left side within int8, where S is at most twice that.
inline constexpr int32_t kBitMiddle = 120;

/// h, of `header`; 3 if there is none.
RQ_INLINE int32_t HalvesOf(const LookupHeader& header) {
  for (int32_t h = 0; h <= 2; ++h) {
    if (-2 * header.offset == h * header.scale) return h;
  }
  return 3;
}

/// The values of a residual.
RQ_INLINE const QAddRange& ResidualRange(const ConvQ8Params* p) {
  const QAddNarrow& add = p->addition.narrow;
  return p->residual_first != 0 ? add.a_range : add.b_range;
}

/// What to compare if all channels have thresholds.
RQ_INLINE BitSource FindBits(const ConvQ8Params* p, const LookupHeader& header,
                             const LookupShape& s) {
  if (p->requantize.narrow.last_low == nullptr) return BitSource::kNone;
  const QAddRange& range = ResidualRange(p);
  if (p->residual != nullptr && (range.hi < range.lo || range.hi - range.lo > 15)) {
    return BitSource::kNone;
  }
  const bool fit = s.taps == 1 && header.planes == 1 && HalvesOf(header) <= 2 &&
                   s.slices * kSlice * header.input_range <= 2 * kBitMiddle;
  return fit ? BitSource::kBytes : BitSource::kSums;
}

/// floor((room + more) / scale) + middle of eight channels, with int8 saturation, in int16.
RQ_INLINE v128_t ByteThresholds(v128_t room0, v128_t room1, int32_t more, int32_t scale,
                                int32_t middle) {
  const auto four = [&](v128_t room) __attribute__((always_inline)) {
    // Exact: |room| < 2^17, where the rounded quotient of a number below another one is below it.
    const v128_t sum = wasm_f32x4_convert_i32x4(wasm_i32x4_add(room, wasm_i32x4_splat(more)));
    const v128_t quotient = wasm_f32x4_div(sum, wasm_f32x4_splat(static_cast<float>(scale)));
    return wasm_i32x4_add(simd::TruncInRange(wasm_f32x4_floor(quotient)), wasm_i32x4_splat(middle));
  };
  return wasm_i16x8_narrow_i32x4(four(room0), four(room1));
}

/// The thresholds of `blocks` blocks from `channel` on, of which `packed` is the first: of bytes in
/// the order of their lanes, for both (h r mod 2), else int16 by channel. False if the sums of some
/// channel do not fit int16 (conv::SetBase).
__attribute__((noinline)) inline bool SetThresholds(const ConvQ8Params* p,
                                                    const LookupHeader& header,
                                                    const uint8_t* packed, ptrdiff_t block_bytes,
                                                    int32_t blocks, int32_t channel, bool of_bytes,
                                                    uint8_t* out) {
  const int32_t z = header.input_lo - p->input_zero_point;
  const int32_t middle = (HalvesOf(header) - 1) * kBitMiddle;
  const int32_t channels = BlockChannels(header.planes);
  for (; blocks > 0; --blocks, packed += block_bytes, channel += channels, out += 2 * channels) {
    const auto* biases = reinterpret_cast<const int32_t*>(packed);
    const auto& fits = *reinterpret_cast<const conv::NarrowSegment*>(biases + 2 * channels);
    v128_t room[4], fit = wasm_i32x4_splat(-1);
    RQ_UNROLL for (int i = 0; i < 4; ++i) {
      // Of a block of eight the second half is the first once more.
      const int32_t c = 4 * i < channels ? 4 * i : 4 * i - 8;
      const v128_t base = wasm_i32x4_add(
          wasm_v128_load(biases + c),
          wasm_i32x4_mul(wasm_i32x4_splat(z), wasm_v128_load(biases + channels + c)));
      fit = wasm_v128_and(fit, conv::BaseFits(fits, base));
      room[i] = wasm_i32x4_sub(wasm_v128_load(p->requantize.narrow.last_low + channel + c), base);
    }
    if (!wasm_i32x4_all_true(fit)) return false;
    if (!of_bytes) {
      wasm_v128_store(out, wasm_i16x8_narrow_i32x4(room[0], room[1]));
      if (channels == 16) wasm_v128_store(out + 16, wasm_i16x8_narrow_i32x4(room[2], room[3]));
      continue;
    }
    RQ_UNROLL for (int odd = 0; odd < 2; ++odd) {
      const int32_t more = odd * header.scale / 2;
      const v128_t bytes =
          wasm_i8x16_narrow_i16x8(ByteThresholds(room[0], room[1], more, header.scale, middle),
                                  ByteThresholds(room[2], room[3], more, header.scale, middle));
      wasm_v128_store(out + 16 * odd, wasm_i8x16_shuffle(bytes, bytes, 0, 8, 1, 9, 2, 10, 3, 11, 4,
                                                         12, 5, 13, 6, 14, 7, 15));
    }
  }
  return true;
}

/// By the four low bits of a residual's code: the output for the lower code, and what it is more
/// for the higher one. `codes` is set for the output; 16 bytes of `room`.
RQ_INLINE void SetSums(const ConvQ8Params* p, const conv::BlockCodes& codes, uint8_t* room,
                       uint8_t* out) {
  const QAddParams& add = p->addition;
  const int32_t zero = p->residual_first != 0 ? add.a_zero : add.b_zero;
  const v128_t least = wasm_i8x16_splat(static_cast<int8_t>(ResidualRange(p).lo + zero));
  const v128_t bits = wasm_i8x16_make(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const v128_t above = wasm_v128_and(wasm_i8x16_sub(bits, least), wasm_i8x16_splat(15));
  wasm_v128_store(room, wasm_i8x16_add(least, above));
  const auto with = [&](v128_t own) __attribute__((always_inline)) {
    return conv::ClampCodes(conv::SumsOf(own, room, codes), conv::SumsOf(own, room + 8, codes),
                            codes);
  };
  const v128_t lower = with(codes.own_lo);
  const v128_t higher = with(wasm_i16x8_add(codes.own_lo, wasm_i16x8_splat(1)));
  wasm_v128_store(out, lower);
  wasm_v128_store(out + 16, wasm_i8x16_sub(higher, lower));
}

/// out[rows][channels], which is 0 or 1, becomes the sums with a residual. A multiple of eight
/// channels.
__attribute__((noinline)) inline void AddToRows(const uint8_t* residual, ptrdiff_t residual_stride,
                                                int32_t rows, int32_t channels, const uint8_t* sums,
                                                uint8_t* out, ptrdiff_t stride) {
  const v128_t lower = wasm_v128_load(sums), more = wasm_v128_load(sums + 16);
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(rows));
  const auto sum = [&](v128_t own, v128_t other) __attribute__((always_inline)) {
    const v128_t at = wasm_v128_and(other, mask), is_higher = wasm_i8x16_neg(own);
    return wasm_i8x16_add(simd::Lookup16(lower, at),
                          wasm_v128_and(simd::Lookup16(more, at), is_higher));
  };
  for (int32_t r = 0; r < rows; ++r, residual += residual_stride, out += stride) {
    int32_t c = 0;
    for (; c + 16 <= channels; c += 16) {
      wasm_v128_store(out + c, sum(wasm_v128_load(out + c), wasm_v128_load(residual + c)));
    }
    if (c < channels) {
      const v128_t last = sum(wasm_v128_load64_zero(out + c), wasm_v128_load64_zero(residual + c));
      wasm_v128_store64_lane(out + c, last, 0);
    }
  }
}

/// lower_code or the next one for `count` rows of a multiple of eight channels, by their int16
/// sums.
__attribute__((noinline)) inline void BitRows(const int16_t* sums, const int16_t* terms,
                                              int32_t scale, const int16_t* thresholds,
                                              int32_t count, int32_t channels, int32_t lower_code,
                                              uint8_t* out, ptrdiff_t stride) {
  const v128_t lower = wasm_i8x16_splat(static_cast<int8_t>(lower_code));
  for (int32_t r = 0; r < count; ++r, out += stride, sums += kStripRow) {
    const auto higher = [&](int32_t c) __attribute__((always_inline)) {
      const LookupSums of = {sums + c, terms + r, scale};
      return wasm_i16x8_gt(of.Of(0), wasm_v128_load(thresholds + c));
    };
    int32_t c = 0;
    for (; c + 16 <= channels; c += 16) {
      wasm_v128_store(out + c,
                      wasm_i8x16_sub(lower, wasm_i8x16_narrow_i16x8(higher(c), higher(c + 8))));
    }
    if (c < channels) {
      const v128_t last = wasm_i8x16_narrow_i16x8(higher(c), higher(c));
      wasm_v128_store64_lane(out + c, wasm_i8x16_sub(lower, last), 0);
    }
  }
}

/// The same for `count` neighbouring windows of a line, whose codes add up to row_sums, and kBlocks
/// blocks, of the last of which `last` channels are there, 8 or 16: by bytes.
template <typename Tables, int kBlocks>
__attribute__((noinline)) void BitPixels(int32_t slices, const uint8_t* in, ptrdiff_t step,
                                         const uint8_t* shared, const uint8_t* indices,
                                         const uint8_t* thresholds, int32_t halves,
                                         const int32_t* row_sums, int32_t count, int32_t lower_code,
                                         uint8_t* out, ptrdiff_t stride, int32_t last) {
  const int32_t middle = (halves - 1) * kBitMiddle;
  const v128_t lower = wasm_i8x16_splat(static_cast<int8_t>(lower_code));
  const v128_t order =
      simd::LoopConstant(wasm_i8x16_make(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15),
                         static_cast<size_t>(count));
  for (int32_t r = 0; r < count; ++r, in += step, out += stride) {
    const int32_t twice = halves * row_sums[r];
    const v128_t start = wasm_i8x16_splat(static_cast<int8_t>(middle - (twice >> 1)));
    v128_t acc[kBlocks];
    const uint8_t *x = in, *index = indices;
    LookUpSlices<Tables, kBlocks, Begin::kStart>(slices, x, shared, index, start, acc);
    const uint8_t* least = thresholds + (twice & 1) * 16;
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) {
      const v128_t higher = wasm_i8x16_gt(acc[i], wasm_v128_load(least + kThresholdBytes * i));
      const v128_t codes = simd::Lookup16(wasm_i8x16_sub(lower, higher), order);
      if (i < kBlocks - 1 || last == 16) {
        wasm_v128_store(out + 16 * i, codes);
      } else {
        wasm_v128_store64_lane(out + 16 * i, codes, 0);
      }
    }
  }
}

}  // namespace requant::bitserial

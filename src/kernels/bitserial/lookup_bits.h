#pragma once
// Outputs of two codes straight from the bytes that lookups add up: the end of vector_lookup.cpp
// where windows are one pixel and all lookups of an output fit one byte. Vector code, freestanding.
//
// With r the sum of a window's codes, S that of an output's lookups and h = -2 offset / scale,
// which is 0, 1 or 2 where the weights are {0, s}, {-s, s} / 2 and {-s, 0}, an accumulator is
// base + scale * S - scale * h * r / 2. It is more than `last_low` where
//
//   S - floor(h r / 2)  >  floor((last_low - base + scale * (h r mod 2) / 2) / scale)
//
// and since S is one of 0..r, the left side less (1 - h) * 120 is within +-120 where r is at most
// 240.
#include "base/simd.h"
#include "kernels/bitserial/lookup.h"
#include "kernels/bitserial/lookup_tables.h"
#include "kernels/bitserial/lookup_tile.h"
#include "kernels/conv/narrow_codes.h"

namespace requant::bitserial {

/// What keeps the left side within int8, where S is at most twice that.
inline constexpr int32_t kBitMiddle = 120;

/// h, of `header`; 3 if there is none.
RQ_INLINE int32_t HalvesOf(const LookupHeader& header) {
  for (int32_t h = 0; h <= 2; ++h) {
    if (-2 * header.offset == h * header.scale) return h;
  }
  return 3;
}

/// Whether the lookups of an output fit its byte, of outputs of two codes.
RQ_INLINE bool BitsFit(const ConvQ8Params* p, const LookupHeader& header, const LookupShape& s) {
  return p->requantize.narrow.last_low != nullptr && p->residual == nullptr && s.taps == 1 &&
         header.planes == 1 && s.slices * kSlice * header.input_range <= 2 * kBitMiddle &&
         HalvesOf(header) <= 2;
}

/// floor((room + more) / scale) + middle of eight channels, with int8 saturation, in int16.
RQ_INLINE v128_t ThresholdsOf(v128_t room0, v128_t room1, int32_t more, int32_t scale,
                              int32_t middle) {
  const auto four = [&](v128_t room) __attribute__((always_inline)) {
    // Exact: |room| < 2^17, where the rounded quotient of a number below another one is below it.
    const v128_t sum = wasm_f32x4_convert_i32x4(wasm_i32x4_add(room, wasm_i32x4_splat(more)));
    const v128_t quotient = wasm_f32x4_div(sum, wasm_f32x4_splat(static_cast<float>(scale)));
    return wasm_i32x4_add(simd::TruncInRange(wasm_f32x4_floor(quotient)), wasm_i32x4_splat(middle));
  };
  return wasm_i16x8_narrow_i32x4(four(room0), four(room1));
}

/// The thresholds of `blocks` blocks from `channel` on, of which `packed` is the first, in the
/// order of their lanes; false if the sums of some channel do not fit int16 (conv::SetBase).
__attribute__((noinline)) inline bool SetThresholds(const ConvQ8Params* p,
                                                    const LookupHeader& header,
                                                    const uint8_t* packed, ptrdiff_t block_bytes,
                                                    int32_t blocks, int32_t channel, uint8_t* out) {
  const int32_t halves = HalvesOf(header), z = header.input_lo - p->input_zero_point;
  const int32_t middle = (halves - 1) * kBitMiddle, channels = BlockChannels(1);
  for (; blocks > 0; --blocks, packed += block_bytes, channel += channels, out += kThresholdBytes) {
    const auto* biases = reinterpret_cast<const int32_t*>(packed);
    const auto& room = *reinterpret_cast<const conv::NarrowSegment*>(biases + 2 * channels);
    const int32_t* last_low = p->requantize.narrow.last_low + channel;
    const v128_t least = wasm_i32x4_splat(room.least_base), most = wasm_i32x4_splat(room.most_base);
    v128_t left[4], fit = wasm_i32x4_splat(-1);
    RQ_UNROLL for (int i = 0; i < 4; ++i) {
      const v128_t weights = wasm_v128_load(biases + channels + 4 * i);
      const v128_t base = wasm_i32x4_add(wasm_v128_load(biases + 4 * i),
                                         wasm_i32x4_mul(wasm_i32x4_splat(z), weights));
      fit =
          wasm_v128_and(fit, wasm_v128_and(wasm_i32x4_ge(base, least), wasm_i32x4_le(base, most)));
      left[i] = wasm_i32x4_sub(wasm_v128_load(last_low + 4 * i), base);
    }
    if (!wasm_i32x4_all_true(fit)) return false;
    RQ_UNROLL for (int odd = 0; odd < 2; ++odd) {
      const int32_t more = odd * header.scale / 2;
      const v128_t bytes =
          wasm_i8x16_narrow_i16x8(ThresholdsOf(left[0], left[1], more, header.scale, middle),
                                  ThresholdsOf(left[2], left[3], more, header.scale, middle));
      wasm_v128_store(out + 16 * odd, wasm_i8x16_shuffle(bytes, bytes, 0, 8, 1, 9, 2, 10, 3, 11, 4,
                                                         12, 5, 13, 6, 14, 7, 15));
    }
  }
  return true;
}

/// lower_code or the next one for `count` neighbouring windows of a line, whose codes add up to
/// row_sums, and kBlocks blocks, of the last of which `last` channels are there: 8 or 16.
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

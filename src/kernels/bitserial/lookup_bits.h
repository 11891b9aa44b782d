#pragma once
// Outputs of two codes, the last stage of vector_lookup.cpp. It compares every sum with a threshold
// of its channel, and adds a residual of few codes by looking up the sum of both. Vector code,
// freestanding.
//
// Sums of int16 are compared directly. Where windows have one pixel and all lookups of an output
// fit one byte, the kernel compares bytes. Let r be the sum of a window's codes, S the sum of an
// output's lookups, and h = -2 offset / scale: 0, 1 or 2 where the weights are {0, s}, {-s, s} / 2
// or {-s, 0}. An accumulator is base + scale * S - scale * h * r / 2. It is more than `last_low`
// where
//
//   S - floor(h r / 2)  >  floor((last_low - base + scale * (h r mod 2) / 2) / scale)
//
// S is one of 0..r, so the left side plus a constant (BitMiddle) is within +-127 where r is at most
// 254. The right side saturates to -128, which every left side exceeds, and to 127. Windows of more
// codes, of which some are likely to be low ones, are tried as well: a band with a larger r is
// compared by its int16 sums.
#include "base/simd.h"
#include "kernels/bitserial/lookup_codes.h"
#include "kernels/bitserial/lookup_output.h"
#include "kernels/bitserial/lookup_tile.h"

namespace requant::bitserial {

/// floor((room + more) / scale) + middle for eight channels, saturated to int8 by the caller, in
/// int16.
RQ_INLINE v128_t ByteThresholds(v128_t room0, v128_t room1, int32_t more, int32_t scale,
                                int32_t middle) {
  const auto four = [&](v128_t room) __attribute__((always_inline)) {
    // Floats are exact here: |room| < 2^17, and a quotient below an integer never rounds up to it.
    const v128_t sum = wasm_f32x4_convert_i32x4(wasm_i32x4_add(room, wasm_i32x4_splat(more)));
    const v128_t quotient = wasm_f32x4_div(sum, wasm_f32x4_splat(static_cast<float>(scale)));
    return wasm_i32x4_add(simd::TruncInRange(wasm_f32x4_floor(quotient)), wasm_i32x4_splat(middle));
  };
  return wasm_i16x8_narrow_i32x4(four(room0), four(room1));
}

/// Sets the thresholds of `blocks` blocks from `channel` on, the first of which is at `packed`: for
/// sums int16 in the order of channels; for bytes, unless `of_bytes` is null, int8 in the order of
/// a block's lanes, first for h r mod 2 = 0, then for 1. Returns false if the sums of some channel
/// do not fit int16 (conv::SetBase).
__attribute__((noinline)) inline bool SetThresholds(const ConvQ8Params* p,
                                                    const LookupHeader& header,
                                                    const uint8_t* packed, ptrdiff_t block_bytes,
                                                    int32_t blocks, int32_t channel,
                                                    uint8_t* of_sums, uint8_t* of_bytes) {
  const int32_t z = header.input_lo - p->input_zero_point;
  const int32_t middle = BitMiddle(HalvesOf(header));
  const int32_t channels = BlockChannels(header.planes);
  for (; blocks > 0; --blocks, packed += block_bytes, channel += channels) {
    const auto* biases = reinterpret_cast<const int32_t*>(packed);
    const auto& fits = *reinterpret_cast<const conv::NarrowSegment*>(biases + 2 * channels);
    v128_t room[4], fit = wasm_i32x4_splat(-1);
    RQ_UNROLL for (int i = 0; i < 4; ++i) {
      // A block of eight channels repeats them as its second half.
      const int32_t c = 4 * i < channels ? 4 * i : 4 * i - 8;
      const v128_t base = wasm_i32x4_add(
          wasm_v128_load(biases + c),
          wasm_i32x4_mul(wasm_i32x4_splat(z), wasm_v128_load(biases + channels + c)));
      fit = wasm_v128_and(fit, conv::BaseFits(fits, base));
      room[i] = wasm_i32x4_sub(wasm_v128_load(p->requantize.narrow.last_low + channel + c), base);
    }
    if (!wasm_i32x4_all_true(fit)) return false;
    wasm_v128_store(of_sums, wasm_i16x8_narrow_i32x4(room[0], room[1]));
    if (channels == 16) wasm_v128_store(of_sums + 16, wasm_i16x8_narrow_i32x4(room[2], room[3]));
    of_sums += 2 * channels;
    if (of_bytes == nullptr) continue;
    RQ_UNROLL for (int odd = 0; odd < 2; ++odd) {
      const int32_t more = odd * header.scale / 2;
      const v128_t bytes =
          wasm_i8x16_narrow_i16x8(ByteThresholds(room[0], room[1], more, header.scale, middle),
                                  ByteThresholds(room[2], room[3], more, header.scale, middle));
      wasm_v128_store(of_bytes + 16 * odd, wasm_i8x16_shuffle(bytes, bytes, 0, 8, 1, 9, 2, 10, 3,
                                                              11, 4, 12, 5, 13, 6, 14, 7, 15));
    }
    of_bytes += kThresholdBytes;
  }
  return true;
}

/// Makes two tables, indexed by the four low bits of a residual's code: the output for the lower
/// own code, and how much larger it is for the higher one. `codes` must be set for the output;
/// `room` is scratch memory of 16 bytes.
RQ_INLINE void SetSums(const ConvQ8Params* p, const conv::BlockCodes& codes, uint8_t* room,
                       uint8_t* out) {
  const v128_t least = wasm_i8x16_splat(static_cast<int8_t>(ResidualRange(p).lo + ResidualZero(p)));
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

/// Replaces out[rows][channels], which are 0 or 1, by their sums with a residual. `channels` is a
/// multiple of eight.
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

/// Returns a mask of the sums of two bits that give the higher code: bit 2 * own + other stands
/// for the output's own bit and the residual's bit `other`. `sums` is from SetSums.
RQ_INLINE int32_t BitSums(const ConvQ8Params* p, const uint8_t* sums) {
  const int32_t least = ResidualRange(p).lo + ResidualZero(p);
  int32_t all = 0;
  for (int32_t i = 0; i < 4; ++i) {
    const int32_t at = (least + (i & 1)) & 15;
    const int32_t sum = sums[at] + (i < 2 ? 0 : sums[16 + at]);
    all |= ((sum - p->addition.lo) & 1) << i;
  }
  return all;
}

/// Adds a residual of two codes to the bits own[rows][16]. Channels are a multiple of 32; the
/// residual, the output or both are bit planes.
template <bool kFromPlanes, bool kToPlanes>
__attribute__((noinline)) void AddBits(const uint8_t* own, const uint8_t* residual,
                                       ptrdiff_t residual_stride, int32_t residual_low,
                                       int32_t sums, int32_t rows, int32_t channels, int32_t low,
                                       uint8_t* out, ptrdiff_t stride) {
  const auto all = [&](int32_t of) __attribute__((always_inline)) {
    return static_cast<uint32_t>(-(sums >> of & 1));
  };
  // The sum as a polynomial over bits: none ^ (by_other & other) ^ (by_own & own) ^ (by_both & own
  // & other).
  const uint32_t none = all(0), by_other = all(0) ^ all(1);
  const uint32_t by_own = all(0) ^ all(2), by_both = by_own ^ all(1) ^ all(3);
  const v128_t lower = wasm_i8x16_splat(static_cast<int8_t>(low));
  const v128_t other_lower = wasm_i8x16_splat(static_cast<int8_t>(residual_low));
  const v128_t places = simd::LoopConstant(
      wasm_i8x16_make(1, 2, 4, 8, 16, 32, 64, -128, 1, 2, 4, 8, 16, 32, 64, -128),
      static_cast<size_t>(rows));
  const auto bits = [&](const uint8_t* bytes) __attribute__((always_inline)) {
    return static_cast<uint32_t>(
        wasm_i8x16_bitmask(wasm_i8x16_ne(wasm_v128_load(bytes), other_lower)));
  };
  const v128_t none16 = wasm_i32x4_splat(static_cast<int32_t>(none));
  const v128_t by_other16 = wasm_i32x4_splat(static_cast<int32_t>(by_other));
  const v128_t by_own16 = wasm_i32x4_splat(static_cast<int32_t>(by_own));
  const v128_t by_both16 = wasm_i32x4_splat(static_cast<int32_t>(by_both));
  for (int32_t r = 0; r < rows; ++r, own += 16, residual += residual_stride, out += stride) {
    if (kFromPlanes && kToPlanes && channels == 128) {
      const v128_t mine = wasm_v128_load(own), other = wasm_v128_load(residual);
      const v128_t of_own = wasm_v128_xor(by_own16, wasm_v128_and(by_both16, other));
      const v128_t of_other = wasm_v128_xor(none16, wasm_v128_and(by_other16, other));
      wasm_v128_store(out, wasm_v128_xor(of_other, wasm_v128_and(mine, of_own)));
      continue;
    }
    for (int32_t c = 0; c < channels; c += 32) {
      uint32_t mine, other;
      __builtin_memcpy(&mine, own + c / 8, 4);
      if (kFromPlanes) {
        __builtin_memcpy(&other, residual + c / 8, 4);
      } else {
        other = bits(residual + c) | bits(residual + c + 16) << 16;
      }
      const uint32_t sum = none ^ (by_other & other) ^ (mine & (by_own ^ (by_both & other)));
      if (kToPlanes) {
        __builtin_memcpy(out + c / 8, &sum, 4);
        continue;
      }
      const v128_t word = wasm_i32x4_splat(static_cast<int32_t>(sum));
      const v128_t first =
          wasm_i8x16_shuffle(word, word, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
      const v128_t second =
          wasm_i8x16_shuffle(word, word, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
      const auto codes = [&](v128_t of) __attribute__((always_inline)) {
        return wasm_i8x16_sub(lower, wasm_i8x16_eq(wasm_v128_and(of, places), places));
      };
      wasm_v128_store(out + c, codes(first));
      wasm_v128_store(out + c + 16, codes(second));
    }
  }
}

/// Stores one bit for each of sixteen bytes that have all bits set or none.
RQ_INLINE void StoreBits(v128_t bytes, uint8_t* out) {
  const uint32_t bits = wasm_i8x16_bitmask(bytes);
  __builtin_memcpy(out, &bits, 2);
}

/// Writes lower_code or the next code for `count` rows by their int16 sums, `channels` being a
/// multiple of eight; or, with kToBits, one bit for each, `channels` being a multiple of sixteen.
template <bool kToBits>
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
      const v128_t both = wasm_i8x16_narrow_i16x8(higher(c), higher(c + 8));
      if (kToBits) {
        StoreBits(both, out + c / 8);
      } else {
        wasm_v128_store(out + c, wasm_i8x16_sub(lower, both));
      }
    }
    if (!kToBits && c < channels) {
      const v128_t last = wasm_i8x16_narrow_i16x8(higher(c), higher(c));
      wasm_v128_store64_lane(out + c, wasm_i8x16_sub(lower, last), 0);
    }
  }
}

/// Writes codes or bits by byte comparisons, for kPixels neighboring windows of a line and kBlocks
/// blocks. row_sums are the sums of the windows' codes; the last block has `last` channels, 8 or
/// 16.
template <typename Tables, int kPixels, int kBlocks, bool kToBits>
RQ_INLINE void BitTile(int32_t slices, const uint8_t* in, ptrdiff_t step, const uint8_t* shared,
                       const uint8_t* indices, const uint8_t* thresholds, int32_t halves,
                       const int32_t* row_sums, v128_t lower, v128_t order, uint8_t* out,
                       ptrdiff_t stride, int32_t last) {
  const int32_t middle = BitMiddle(halves);
  int32_t twice[kPixels];
  v128_t start[kPixels], acc[kPixels * kBlocks];
  RQ_UNROLL for (int x = 0; x < kPixels; ++x) {
    twice[x] = halves * row_sums[x];
    start[x] = wasm_i8x16_splat(static_cast<int8_t>(middle - (twice[x] >> 1)));
  }
  if (kPixels > 1) {
    RQ_UNROLL for (int i = 0; i < kPixels * kBlocks; ++i) acc[i] = start[i % kPixels];
    LookUpPlaces<kPixels, kBlocks>(4 * slices, in, step, shared, indices, acc);
  } else {
    LookUpSlices<Tables, kBlocks, Begin::kStart>(slices, in, shared, indices, start[0], acc);
  }
  RQ_UNROLL for (int x = 0; x < kPixels; ++x, out += stride) {
    const uint8_t* least = thresholds + (twice[x] & 1) * 16;
    RQ_UNROLL for (int i = 0; i < kBlocks; ++i) {
      const v128_t higher =
          wasm_i8x16_gt(acc[i * kPixels + x], wasm_v128_load(least + kThresholdBytes * i));
      if (kToBits) {
        StoreBits(simd::Lookup16(higher, order), out + 2 * i);
        continue;
      }
      const v128_t codes = simd::Lookup16(wasm_i8x16_sub(lower, higher), order);
      if (i < kBlocks - 1 || last == 16) {
        wasm_v128_store(out + 16 * i, codes);
      } else {
        wasm_v128_store64_lane(out + 16 * i, codes, 0);
      }
    }
  }
}

/// Runs BitTile over `count` windows. A tile of two pixels by four blocks loads each index once for
/// both pixels, and so takes as few instructions for each lookup as one pixel by eight blocks.
template <typename Tables, int kBlocks, bool kToBits>
__attribute__((noinline)) void BitPixels(int32_t slices, const uint8_t* in, ptrdiff_t step,
                                         const uint8_t* shared, const uint8_t* indices,
                                         const uint8_t* thresholds, int32_t halves,
                                         const int32_t* row_sums, int32_t count, int32_t lower_code,
                                         uint8_t* out, ptrdiff_t stride, int32_t last) {
  const v128_t lower = wasm_i8x16_splat(static_cast<int8_t>(lower_code));
  const v128_t order =
      simd::LoopConstant(wasm_i8x16_make(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15),
                         static_cast<size_t>(count));
  int32_t r = 0;
  if (kBlocks == 4 && Tables::kBytes < kSliceBytes) {
    for (; r + 2 <= count; r += 2, in += 2 * step, out += 2 * stride) {
      BitTile<Tables, 2, kBlocks, kToBits>(slices, in, step, shared, indices, thresholds, halves,
                                           row_sums + r, lower, order, out, stride, last);
    }
  }
  for (; r < count; ++r, in += step, out += stride) {
    BitTile<Tables, 1, kBlocks, kToBits>(slices, in, step, shared, indices, thresholds, halves,
                                         row_sums + r, lower, order, out, stride, last);
  }
}

}  // namespace requant::bitserial

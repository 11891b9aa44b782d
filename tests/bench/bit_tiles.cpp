// The inner loops of bit-serial products alone, with operands in the first-level cache:
// bitserial.mjs compares the kernels with them. Each export adds up `k` products of one bit by one
// bit (lookup: of inputs of few bits by one bit) for several outputs; the numbers in its name give
// the number of outputs.
#include "base/simd.h"

namespace {

using namespace requant;

RQ_INLINE v128_t And(v128_t a, v128_t b) { return wasm_v128_and(a, b); }
RQ_INLINE v128_t Xor(v128_t a, v128_t b) { return wasm_v128_xor(a, b); }

RQ_INLINE void StoreSum(v128_t bytes, int times, char* out) {
  const v128_t sums = wasm_u32x4_extadd_pairwise_u16x8(wasm_u16x8_extadd_pairwise_u8x16(bytes));
  wasm_v128_store(out, wasm_i32x4_shl(sums, times));
}

/// Counts by i8x16.popcnt, and adds up bytes for at most 31 steps of 128 bits.
template <int kRows, int kColumns, v128_t (*kJoin)(v128_t, v128_t)>
RQ_INLINE void Popcount(const char* a, const char* b, int k, char* out) {
  v128_t sums[kRows][kColumns];
  RQ_UNROLL for (int r = 0; r < kRows; ++r) {
    RQ_UNROLL for (int c = 0; c < kColumns; ++c) sums[r][c] = wasm_i8x16_splat(0);
  }
  for (; k > 0; k -= 128, a += 16 * kRows, b += 16 * kColumns) {
    RQ_UNROLL for (int c = 0; c < kColumns; ++c) {
      const v128_t w = wasm_v128_load(b + 16 * c);
      RQ_UNROLL for (int r = 0; r < kRows; ++r) {
        sums[r][c] =
            wasm_i8x16_add(sums[r][c], wasm_i8x16_popcnt(kJoin(wasm_v128_load(a + 16 * r), w)));
      }
    }
  }
  RQ_UNROLL for (int r = 0; r < kRows; ++r) {
    RQ_UNROLL for (int c = 0; c < kColumns; ++c)
        StoreSum(sums[r][c], 0, out + 16 * (r * kColumns + c));
  }
}

/// Adds two vectors of bits to `ones`; returns the carries.
RQ_INLINE v128_t Carry(v128_t& ones, v128_t a, v128_t b) {
  const v128_t half = wasm_v128_xor(ones, a);
  const v128_t carry = wasm_v128_or(wasm_v128_and(ones, a), wasm_v128_and(half, b));
  ones = wasm_v128_xor(half, b);
  return carry;
}

/// Counts by Harley and Seal's carry-save adders over eight vectors (Mula, Kurz, Lemire: Faster
/// population counts using AVX2 instructions, 2018), with the count of the eights in bytes.
template <int kRows>
RQ_INLINE void CarrySave(const char* a, const char* b, int k, char* out) {
  v128_t ones[kRows], twos[kRows], fours[kRows], sums[kRows];
  RQ_UNROLL for (int r = 0; r < kRows; ++r) {
    ones[r] = twos[r] = fours[r] = sums[r] = wasm_i8x16_splat(0);
  }
  for (; k > 0; k -= 1024, a += 128 * kRows, b += 128) {
    RQ_UNROLL for (int r = 0; r < kRows; ++r) {
      const auto bits = [&](int i) __attribute__((always_inline)) {
        return wasm_v128_and(wasm_v128_load(a + 128 * r + 16 * i), wasm_v128_load(b + 16 * i));
      };
      const v128_t t0 = Carry(ones[r], bits(0), bits(1)), t1 = Carry(ones[r], bits(2), bits(3));
      const v128_t f0 = Carry(twos[r], t0, t1);
      const v128_t t2 = Carry(ones[r], bits(4), bits(5)), t3 = Carry(ones[r], bits(6), bits(7));
      const v128_t f1 = Carry(twos[r], t2, t3);
      sums[r] = wasm_i8x16_add(sums[r], wasm_i8x16_popcnt(Carry(fours[r], f0, f1)));
    }
  }
  RQ_UNROLL for (int r = 0; r < kRows; ++r) {
    StoreSum(sums[r], 3, out + 64 * r);
    StoreSum(wasm_i8x16_popcnt(fours[r]), 2, out + 64 * r + 16);
    StoreSum(wasm_i8x16_popcnt(twos[r]), 1, out + 64 * r + 32);
    StoreSum(wasm_i8x16_popcnt(ones[r]), 0, out + 64 * r + 48);
  }
}

/// Counts by i64.popcnt.
template <int kRows, int kColumns>
RQ_INLINE void Words(const char* a, const char* b, int k, char* out) {
  int sums[kRows][kColumns] = {};
  const auto* x = reinterpret_cast<const uint64_t*>(a);
  const auto* w = reinterpret_cast<const uint64_t*>(b);
  for (; k > 0; k -= 64, x += kRows, w += kColumns) {
    RQ_UNROLL for (int r = 0; r < kRows; ++r) {
      RQ_UNROLL for (int c = 0; c < kColumns; ++c) {
        sums[r][c] += __builtin_popcountll(x[r] & w[c]);
      }
    }
  }
  RQ_UNROLL for (int r = 0; r < kRows; ++r) {
    RQ_UNROLL for (int c = 0; c < kColumns; ++c) {
      reinterpret_cast<int*>(out)[r * kColumns + c] = sums[r][c];
    }
  }
}

/// Computes 16 outputs by a shuffle of a table of four inputs' subset sums, for kRows inputs by
/// kBlocks times sixteen outputs. Bytes are widened to 16 bits after kFlush lookups, in registers
/// or, for more than four vectors, in memory; kJoins adds two planes by a dot product.
template <int kRows, int kBlocks, int kFlush, v128_t (*kLookup)(v128_t, v128_t),
          bool kJoins = false>
RQ_INLINE void Lookup(const char* tables, const char* indices, int k, char* out) {
  constexpr int kSums = kRows * kBlocks;
  constexpr bool kInMemory = kSums > 4;
  v128_t low[kSums], high[kSums];
  RQ_UNROLL for (int i = 0; i < kSums; ++i) low[i] = high[i] = wasm_i16x8_splat(0);
  const auto add = [&](v128_t x, v128_t & sum, char* to) __attribute__((always_inline)) {
    if (kInMemory) {
      wasm_v128_store(to, wasm_i16x8_add(x, wasm_v128_load(to)));
    } else {
      sum = wasm_i16x8_add(sum, x);
    }
  };
  while (k > 0) {
    v128_t sums[kSums];
    RQ_UNROLL for (int i = 0; i < kSums; ++i) sums[i] = wasm_i8x16_splat(0);
    int steps = k < 4 * kFlush ? k / 16 : kFlush / 4;
    k -= 16 * steps;
    do {
      RQ_UNROLL for (int i = 0; i < 4; ++i) {
        v128_t table[kRows];
        RQ_UNROLL for (int r = 0; r < kRows; ++r) {
          table[r] = wasm_v128_load(tables + 64 * r + 16 * i);
        }
        RQ_UNROLL for (int b = 0; b < kBlocks; ++b) {
          const v128_t index = wasm_v128_load(indices + 16 * (i * kBlocks + b));
          RQ_UNROLL for (int r = 0; r < kRows; ++r) {
            v128_t& sum = sums[r * kBlocks + b];
            sum = wasm_i8x16_add(sum, kLookup(table[r], index));
          }
        }
      }
      tables += 64 * kRows;
      indices += 64 * kBlocks;
    } while (--steps > 0);
    RQ_UNROLL for (int i = 0; i < kSums; ++i) {
      if (kJoins) {
        add(simd::DotI8I7(sums[i], wasm_i16x8_splat(0x0201)), low[i], out + 16 * i);
      } else {
        const v128_t pairs = kInMemory ? wasm_v128_and(sums[i], wasm_i16x8_splat(255)) : sums[i];
        add(pairs, low[i], out + 32 * i);
        add(wasm_u16x8_shr(sums[i], 8), high[i], out + 32 * i + 16);
      }
    }
  }
  if (kInMemory) return;
  RQ_UNROLL for (int i = 0; i < kSums; ++i) {
    wasm_v128_store(out + 32 * i, low[i]);
    wasm_v128_store(out + 32 * i + 16, high[i]);
  }
}

RQ_INLINE v128_t Swizzle(v128_t table, v128_t index) { return wasm_i8x16_swizzle(table, index); }

}  // namespace

#define TILE(name, ...)                                                                         \
  extern "C" __attribute__((export_name(#name))) void name(const char* a, const char* b, int k, \
                                                           char* out) {                         \
    __VA_ARGS__(a, b, k, out);                                                                  \
  }
TILE(and_popcnt_16, Popcount<4, 4, And>)
TILE(and_popcnt_8, Popcount<4, 2, And>)
TILE(and_popcnt_4, Popcount<2, 2, And>)
TILE(xnor_popcnt_8, Popcount<4, 2, Xor>)
TILE(carry_save_1, CarrySave<1>)
TILE(carry_save_2, CarrySave<2>)
TILE(words_16, Words<4, 4>)
TILE(words_8, Words<4, 2>)
TILE(words_4, Words<2, 2>)
// One row: the tables stay in registers, and x86 reads indices directly from memory.
TILE(lookup_128, Lookup<1, 8, 60, simd::Lookup16>)
TILE(lookup_64, Lookup<1, 4, 60, simd::Lookup16>)
TILE(lookup_rows_64, Lookup<4, 1, 60, simd::Lookup16>)
TILE(lookup_rows_96, Lookup<3, 2, 60, simd::Lookup16>)
TILE(lookup_a2_128, Lookup<1, 8, 20, simd::Lookup16>)
TILE(lookup_a2_64, Lookup<1, 4, 20, simd::Lookup16>)
TILE(lookup_a4_64, Lookup<1, 4, 4, simd::Lookup16>)
TILE(lookup_joined_128, Lookup<1, 8, 20, simd::Lookup16, true>)
TILE(lookup_joined_64, Lookup<1, 4, 20, simd::Lookup16, true>)
TILE(lookup_a4_joined_64, Lookup<1, 4, 4, simd::Lookup16, true>)
TILE(swizzle_128, Lookup<1, 8, 60, Swizzle>)
TILE(swizzle_64, Lookup<1, 4, 60, Swizzle>)

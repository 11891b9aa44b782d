// The register tiles of vector_narrow.cpp. Vector code, freestanding.
//
// A register tile of 5 rows by 8 channels is faster here than passing over the rows (product.h).
// GOPS on x86-64 (AMD Zen 4 at 2.8 GHz): 5 rows 134, 4 rows 131, 6 rows, which spill, 99, 3 rows by
// 12 channels 134. Multiplications and additions alone, without loads, reach 149: two of each in
// 2.4 cycles.
#pragma once
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/conv/narrow/narrow_codes.h"

namespace requant::conv {

/// Rows of the register tiles.
constexpr int32_t kLargeTile = 5, kSmallTile = 4;

/// Divides `count` rows into tiles of five rows and of four; fewer than four rows are left over.
struct Tiles {
  int32_t fives, fours;
  RQ_INLINE Tiles Of(int32_t count) {
    int32_t fours = (kLargeTile - count % kLargeTile) % kLargeTile;
    if (fours > count / kSmallTile) fours = count / kSmallTile;
    return {(count - fours * kSmallTile) / kLargeTile, fours};
  }
};
RQ_INLINE int32_t RowsOf(Tiles tiles) {
  return tiles.fives * kLargeTile + tiles.fours * kSmallTile;
}

/// Multiplies inputs in [0, 127] by weights that are any signed bytes.
struct NarrowInputs {
  static constexpr bool kAdds = true;
  RQ_INLINE v128_t Dot(v128_t w, v128_t x) { return simd::DotI8I7(w, x); }
};
/// Multiplies weights in [0, 127] by inputs that are any signed bytes. Weights are coded `offset`
/// lower than they are, so the sum of a row times `offset` is added.
struct NarrowWeights {
  static constexpr bool kAdds = false;
  RQ_INLINE v128_t Dot(v128_t w, v128_t x) { return simd::DotI8I7(x, w); }
};

/// The weights of one step: low nibbles are channels 0 to 3, high ones 4 to 7. `mask` is 15.
RQ_INLINE v128_t LowNibbles(v128_t packed, v128_t mask) { return wasm_v128_and(packed, mask); }
RQ_INLINE v128_t HighNibbles(v128_t packed, v128_t mask) {
  return wasm_v128_and(wasm_u16x8_shr(packed, 4), mask);
}

static __attribute__((noinline)) void Unpack(const uint8_t* packed, int32_t steps, int32_t add,
                                             uint8_t* bytes) {
  const v128_t adds = wasm_i8x16_splat(static_cast<int8_t>(add));
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(steps));
  for (; steps > 0; --steps, packed += 16, bytes += 32) {
    const v128_t both = wasm_v128_load(packed);
    wasm_v128_store(bytes, wasm_i8x16_add(LowNibbles(both, mask), adds));
    wasm_v128_store(bytes + 16, wasm_i8x16_add(HighNibbles(both, mask), adds));
  }
}

/// Adds the products of `steps` steps of kRows rows with one block to 2 * kRows vectors of int16
/// (four channels each, two lanes a channel) and moves rows and weights behind them.
template <typename Op, int kRows>
RQ_INLINE void AddProducts(const uint8_t** rows, const uint8_t*& weights, int32_t steps,
                           v128_t* acc0, v128_t* acc1) {
  const uint8_t* w = weights;
  const int32_t end = steps * kDot7Group;
  for (int32_t k = 0; k < end; k += kDot7Group) {
    const v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 16);
    w += 32;
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      const v128_t x = wasm_v128_load32_splat(rows[i] + k);
      acc0[i] = wasm_i16x8_add(acc0[i], Op::Dot(w0, x));
      acc1[i] = wasm_i16x8_add(acc1[i], Op::Dot(w1, x));
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] += end;
  weights = w;
}

/// Widens kRows times eight int16 sums, two lanes each, and adds the int32 sums in `from`.
template <int kRows>
RQ_INLINE void AddSums(const int32_t* from, ptrdiff_t step, v128_t* acc0, v128_t* acc1) {
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    acc0[i] =
        wasm_i32x4_add(wasm_v128_load(from + i * step), wasm_i32x4_extadd_pairwise_i16x8(acc0[i]));
    acc1[i] = wasm_i32x4_add(wasm_v128_load(from + i * step + 4),
                             wasm_i32x4_extadd_pairwise_i16x8(acc1[i]));
  }
}

template <int kRows>
RQ_INLINE void StoreSums(const v128_t* acc0, const v128_t* acc1, int32_t* out) {
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    wasm_v128_store(out + i * kChannelBlock, acc0[i]);
    wasm_v128_store(out + i * kChannelBlock + 4, acc1[i]);
  }
}

/// out[tiles * kRows][8] = from + the products of so many rows, lda bytes apart, with one block.
/// `from`, which may be `out`, has rows from_step int32 apart. One call computes all tiles, because
/// a call costs as much as three of the 16 steps of 64 channels.
template <typename Op, int kRows>
static __attribute__((noinline)) void NarrowTiles(const uint8_t* a, ptrdiff_t lda,
                                                  const uint8_t* weights, int32_t all_steps,
                                                  int32_t segment, const int32_t* bases,
                                                  ptrdiff_t from_step, int32_t tiles,
                                                  int32_t* out) {
  for (; tiles > 0; --tiles) {
    const uint8_t* rows[kRows];
    RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] = a + i * lda;
    const uint8_t* w = weights;
    const int32_t* from = bases;
    ptrdiff_t step = from_step;
    int32_t steps = all_steps;
    do {
      v128_t acc0[kRows], acc1[kRows];
      RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = acc1[i] = wasm_i16x8_splat(0);
      AddProducts<Op, kRows>(rows, w, steps < segment ? steps : segment, acc0, acc1);
      steps -= segment;
      AddSums<kRows>(from, step, acc0, acc1);
      StoreSums<kRows>(acc0, acc1, out);
      from = out;
      step = kChannelBlock;
    } while (steps > 0);
    a += kRows * lda;
    bases += kRows * from_step;
    out += kRows * kChannelBlock;
  }
}

/// Stores eight bytes of each row; bytes_of makes those of two rows at a time.
template <int kRows, typename BytesOf>
RQ_INLINE void StoreRows(const v128_t* rows, uint8_t* out, ptrdiff_t stride,
                         const BytesOf& bytes_of) {
  RQ_UNROLL for (int i = 0; i < kRows; i += 2) {
    const bool two = i + 1 < kRows;
    const v128_t bytes = bytes_of(rows[i], rows[two ? i + 1 : i]);
    wasm_v128_store64_lane(out + i * stride, bytes, 0);
    if (two) wasm_v128_store64_lane(out + (i + 1) * stride, bytes, 1);
  }
}

/// Computes tiles as NarrowTiles does and writes codes; `sums` [kRows][8] holds the sums between
/// segments. kAdds adds the residual's codes.
template <int kRows, bool kAdds>
static __attribute__((noinline)) void CodeTiles(const uint8_t* a, ptrdiff_t lda,
                                                const uint8_t* weights, int32_t all_steps,
                                                int32_t segment, const int32_t* base,
                                                const BlockCodes* codes, int32_t tiles,
                                                const uint8_t* residual, ptrdiff_t residual_stride,
                                                uint8_t* out, ptrdiff_t out_stride, int32_t* sums) {
  const BlockCodes& c = *codes;
  for (; tiles > 0; --tiles) {
    const uint8_t* rows[kRows];
    RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] = a + i * lda;
    const uint8_t* w = weights;
    const int32_t* from = base;
    ptrdiff_t step = 0;
    int32_t steps = all_steps;
    if (steps > segment) {
      // NarrowTiles computes all but the last segment. Few layers have more than one segment, and a
      // loop around products and codes would slow the others.
      steps = (all_steps - 1) % segment + 1;
      const int32_t before = all_steps - steps;
      NarrowTiles<NarrowInputs, kRows>(a, lda, w, before, segment, from, step, 1, sums);
      RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] += before * kDot7Group;
      w += before * 32;
      from = sums;
      step = kChannelBlock;
    }
    v128_t acc0[kRows], acc1[kRows];
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      acc0[i] = c.base0;
      acc1[i] = c.base1;
    }
    AddProducts<NarrowInputs, kRows>(rows, w, steps, acc0, acc1);
    const bool in_float = c.form == CodeForm::kInFloat;
    if (!in_float) {
      RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = LineOf(acc0[i], acc1[i], c);
      if (!kAdds) {
        RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = CodesOf(acc0[i], c);
      } else if (c.form == CodeForm::kFillsInt16) {
        RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = OwnCodes<true>(acc0[i], c);
      } else {
        RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = OwnCodes<false>(acc0[i], c);
      }
    } else {
      if (c.of_int32 != 0) {
        AddSums<kRows>(from, step, acc0, acc1);
      } else {
        RQ_UNROLL for (int i = 0; i < kRows; ++i) {
          acc0[i] = wasm_i32x4_extadd_pairwise_i16x8(acc0[i]);
          acc1[i] = wasm_i32x4_extadd_pairwise_i16x8(acc1[i]);
        }
      }
      RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = FloatCodes(acc0[i], acc1[i], c);
    }
    if (kAdds) {
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        acc0[i] = SumsOf(acc0[i], residual + i * residual_stride, c);
      }
    }
    if (kAdds || !in_float) {
      StoreRows<kRows>(acc0, out, out_stride,
                       [&](v128_t first, v128_t second) { return ClampCodes(first, second, c); });
    } else {
      StoreRows<kRows>(acc0, out, out_stride,
                       [&](v128_t first, v128_t second) { return FloatBytes(first, second, c); });
    }
    a += kRows * lda;
    if (kAdds) residual += kRows * residual_stride;
    out += kRows * out_stride;
  }
}

/// Writes the codes of all tiles of a block, from `row` and `channel` of the output on; `sums` has
/// room for one tile.
template <bool kAdds>
RQ_INLINE void CodeRows(const ConvQ8Params* p, const uint8_t* a, ptrdiff_t lda, const uint8_t* w,
                        int32_t steps, int32_t segment, const int32_t* base,
                        const BlockCodes* codes, Tiles tiles, int32_t row, int32_t channel,
                        int32_t* sums) {
  const ptrdiff_t stride = p->geometry.output_stride;
  uint8_t* out = static_cast<uint8_t*>(p->output) + row * stride + channel;
  const uint8_t* residual = nullptr;
  const ptrdiff_t other_stride = kAdds ? p->residual_stride : 0;
  if (kAdds) residual = static_cast<const uint8_t*>(p->residual) + row * other_stride + channel;
  CodeTiles<kLargeTile, kAdds>(a, lda, w, steps, segment, base, codes, tiles.fives, residual,
                               other_stride, out, stride, sums);
  const ptrdiff_t done = tiles.fives * kLargeTile;
  if (kAdds) residual += done * other_stride;
  CodeTiles<kSmallTile, kAdds>(a + done * lda, lda, w, steps, segment, base, codes, tiles.fours,
                               residual, other_stride, out + done * stride, stride, sums);
}

/// Computes what NarrowTiles does for single rows, whose weights may be nibbles; `add` is added to
/// the weights of NarrowInputs.
template <typename Op, bool kNibbles>
static __attribute__((noinline)) void NarrowSingleRows(const uint8_t* a, ptrdiff_t lda,
                                                       const uint8_t* weights, int32_t add,
                                                       int32_t all_steps, int32_t segment,
                                                       const int32_t* bases, ptrdiff_t from_step,
                                                       int32_t rows, int32_t* out) {
  constexpr int kUnroll = 2;
  constexpr ptrdiff_t kStep = kNibbles ? 16 : 32;
  const v128_t adds = wasm_i8x16_splat(static_cast<int8_t>(add));
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(rows));
  for (; rows > 0; --rows, a += lda, bases += from_step, out += kChannelBlock) {
    const uint8_t* x = a;
    const uint8_t* w = weights;
    v128_t sum0 = wasm_v128_load(bases), sum1 = wasm_v128_load(bases + 4);
    for (int32_t steps = all_steps; steps > 0; steps -= segment) {
      const uint8_t* end = x + (steps < segment ? steps : segment) * kDot7Group;
      v128_t acc0[kUnroll], acc1[kUnroll];
      RQ_UNROLL for (int u = 0; u < kUnroll; ++u) acc0[u] = acc1[u] = wasm_i16x8_splat(0);
      const auto step = [&](int u) __attribute__((always_inline)) {
        v128_t w0 = wasm_v128_load(w + u * kStep), w1;
        if (kNibbles) {
          w1 = HighNibbles(w0, mask);
          w0 = LowNibbles(w0, mask);
          if (Op::kAdds) {
            w0 = wasm_i8x16_add(w0, adds);
            w1 = wasm_i8x16_add(w1, adds);
          }
        } else {
          w1 = wasm_v128_load(w + u * kStep + 16);
        }
        const v128_t value = wasm_v128_load32_splat(x + u * kDot7Group);
        acc0[u] = wasm_i16x8_add(acc0[u], Op::Dot(w0, value));
        acc1[u] = wasm_i16x8_add(acc1[u], Op::Dot(w1, value));
      };
      for (; end - x >= kUnroll * kDot7Group; x += kUnroll * kDot7Group) {
        RQ_UNROLL for (int u = 0; u < kUnroll; ++u) step(u);
        w += kUnroll * kStep;
      }
      for (; x != end; x += kDot7Group, w += kStep) step(0);
      const v128_t all0 = wasm_i16x8_add(acc0[0], acc0[1]);
      const v128_t all1 = wasm_i16x8_add(acc1[0], acc1[1]);
      sum0 = wasm_i32x4_add(sum0, wasm_i32x4_extadd_pairwise_i16x8(all0));
      sum1 = wasm_i32x4_add(sum1, wasm_i32x4_extadd_pairwise_i16x8(all1));
    }
    wasm_v128_store(out, sum0);
    wasm_v128_store(out + 4, sum1);
  }
}

/// Computes all rows of a strip. Weights are nibbles only if the strip has fewer rows than a tile;
/// otherwise they were unpacked.
template <typename Op>
RQ_INLINE void NarrowRows(const uint8_t* a, ptrdiff_t lda, const uint8_t* w, bool nibbles,
                          int32_t add, int32_t steps, int32_t segment, const int32_t* from,
                          ptrdiff_t from_step, int32_t count, int32_t* out) {
  const Tiles tiles = Tiles::Of(count);
  const auto skip = [&](int32_t rows) __attribute__((always_inline)) {
    a += rows * lda, from += rows * from_step, out += rows * kChannelBlock;
    count -= rows;
  };
  if (tiles.fives > 0) {
    NarrowTiles<Op, kLargeTile>(a, lda, w, steps, segment, from, from_step, tiles.fives, out);
    skip(tiles.fives * kLargeTile);
  }
  if (tiles.fours > 0) {
    NarrowTiles<Op, kSmallTile>(a, lda, w, steps, segment, from, from_step, tiles.fours, out);
    skip(tiles.fours * kSmallTile);
  }
  if (count == 0) return;
  if (nibbles) {
    NarrowSingleRows<Op, true>(a, lda, w, add, steps, segment, from, from_step, count, out);
  } else {
    NarrowSingleRows<Op, false>(a, lda, w, 0, steps, segment, from, from_step, count, out);
  }
}

}  // namespace requant::conv

// Products of fewer than 8 by 8 bits, for relaxed SIMD.
//
// i16x8.relaxed_dot_i8x16_i7x16 adds pairs of products of signed bytes and bytes in [0, 127]. Many
// pairs of narrow operands fit int16, so they are added as int16 and widened to int32 only after a
// segment of `segment` steps: sixteen products take two instructions, where 7 bits take three and 8
// bits four. The length of a segment follows from the weights themselves and from the codes that
// the input can hold (pack_narrow.cpp). Additions wrap, so only a segment's final sum has to fit.
//
// A register tile of 5 rows by 8 channels is faster here than passing over the rows (product.h).
// GOPS on x86-64 (AMD Zen 4 at 2.8 GHz): 5 rows 134, 4 rows 131, 6 rows, which spill, 99, 3 rows by
// 12 channels 134. Multiplications and additions alone, without loads, reach 149: two of each in
// 2.4 cycles.
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/conv/gather/gather_bytes.h"
#include "kernels/conv/narrow/narrow_codes.h"
#include "kernels/conv/narrow/narrow_rows.h"

namespace requant {
namespace {

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

__attribute__((noinline)) void Unpack(const uint8_t* packed, int32_t steps, int32_t add,
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
  const int32_t end = steps * conv::kDot7Group;
  for (int32_t k = 0; k < end; k += conv::kDot7Group) {
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
    wasm_v128_store(out + i * conv::kChannelBlock, acc0[i]);
    wasm_v128_store(out + i * conv::kChannelBlock + 4, acc1[i]);
  }
}

/// out[tiles * kRows][8] = from + the products of so many rows, lda bytes apart, with one block.
/// `from`, which may be `out`, has rows from_step int32 apart. One call computes all tiles, because
/// a call costs as much as three of the 16 steps of 64 channels.
template <typename Op, int kRows>
__attribute__((noinline)) void NarrowTiles(const uint8_t* a, ptrdiff_t lda, const uint8_t* weights,
                                           int32_t all_steps, int32_t segment, const int32_t* bases,
                                           ptrdiff_t from_step, int32_t tiles, int32_t* out) {
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
      step = conv::kChannelBlock;
    } while (steps > 0);
    a += kRows * lda;
    bases += kRows * from_step;
    out += kRows * conv::kChannelBlock;
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
__attribute__((noinline)) void CodeTiles(const uint8_t* a, ptrdiff_t lda, const uint8_t* weights,
                                         int32_t all_steps, int32_t segment, const int32_t* base,
                                         const conv::BlockCodes* codes, int32_t tiles,
                                         const uint8_t* residual, ptrdiff_t residual_stride,
                                         uint8_t* out, ptrdiff_t out_stride, int32_t* sums) {
  const conv::BlockCodes& c = *codes;
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
      RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] += before * conv::kDot7Group;
      w += before * 32;
      from = sums;
      step = conv::kChannelBlock;
    }
    v128_t acc0[kRows], acc1[kRows];
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      acc0[i] = c.base0;
      acc1[i] = c.base1;
    }
    AddProducts<NarrowInputs, kRows>(rows, w, steps, acc0, acc1);
    const bool in_float = c.form == conv::CodeForm::kInFloat;
    if (!in_float) {
      RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = conv::LineOf(acc0[i], acc1[i], c);
      if (!kAdds) {
        RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = conv::CodesOf(acc0[i], c);
      } else if (c.form == conv::CodeForm::kFillsInt16) {
        RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = conv::OwnCodes<true>(acc0[i], c);
      } else {
        RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = conv::OwnCodes<false>(acc0[i], c);
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
      RQ_UNROLL for (int i = 0; i < kRows; ++i) acc0[i] = conv::FloatCodes(acc0[i], acc1[i], c);
    }
    if (kAdds) {
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        acc0[i] = conv::SumsOf(acc0[i], residual + i * residual_stride, c);
      }
    }
    if (kAdds || !in_float) {
      StoreRows<kRows>(acc0, out, out_stride, [&](v128_t first, v128_t second) {
        return conv::ClampCodes(first, second, c);
      });
    } else {
      StoreRows<kRows>(acc0, out, out_stride, [&](v128_t first, v128_t second) {
        return conv::FloatBytes(first, second, c);
      });
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
                        const conv::BlockCodes* codes, Tiles tiles, int32_t row, int32_t channel,
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
__attribute__((noinline)) void NarrowSingleRows(const uint8_t* a, ptrdiff_t lda,
                                                const uint8_t* weights, int32_t add,
                                                int32_t all_steps, int32_t segment,
                                                const int32_t* bases, ptrdiff_t from_step,
                                                int32_t rows, int32_t* out) {
  constexpr int kUnroll = 2;
  constexpr ptrdiff_t kStep = kNibbles ? 16 : 32;
  const v128_t adds = wasm_i8x16_splat(static_cast<int8_t>(add));
  const v128_t mask = simd::LoopConstant(int8_t{15}, static_cast<size_t>(rows));
  for (; rows > 0; --rows, a += lda, bases += from_step, out += conv::kChannelBlock) {
    const uint8_t* x = a;
    const uint8_t* w = weights;
    v128_t sum0 = wasm_v128_load(bases), sum1 = wasm_v128_load(bases + 4);
    for (int32_t steps = all_steps; steps > 0; steps -= segment) {
      const uint8_t* end = x + (steps < segment ? steps : segment) * conv::kDot7Group;
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
        const v128_t value = wasm_v128_load32_splat(x + u * conv::kDot7Group);
        acc0[u] = wasm_i16x8_add(acc0[u], Op::Dot(w0, value));
        acc1[u] = wasm_i16x8_add(acc1[u], Op::Dot(w1, value));
      };
      for (; end - x >= kUnroll * conv::kDot7Group; x += kUnroll * conv::kDot7Group) {
        RQ_UNROLL for (int u = 0; u < kUnroll; ++u) step(u);
        w += kUnroll * kStep;
      }
      for (; x != end; x += conv::kDot7Group, w += kStep) step(0);
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
    a += rows * lda, from += rows * from_step, out += rows * conv::kChannelBlock;
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

/// out[count][8] = biases less the zero point's share, plus the term of each row.
__attribute__((noinline)) void Bases(const uint8_t* block, int32_t zero_point, const int32_t* terms,
                                     int32_t count, int32_t* out) {
  const v128_t zero = wasm_i32x4_splat(zero_point);
  const v128_t base0 =
      wasm_i32x4_sub(wasm_v128_load(block), wasm_i32x4_mul(zero, wasm_v128_load(block + 32)));
  const v128_t base1 =
      wasm_i32x4_sub(wasm_v128_load(block + 16), wasm_i32x4_mul(zero, wasm_v128_load(block + 48)));
  for (int32_t r = 0; r < count; ++r, out += conv::kChannelBlock) {
    const v128_t term = wasm_v128_load32_splat(terms + r);
    wasm_v128_store(out, wasm_i32x4_add(base0, term));
    wasm_v128_store(out + 4, wasm_i32x4_add(base1, term));
  }
}

}  // namespace
}  // namespace requant

void rq_conv_narrow_rows(const uint8_t* a, ptrdiff_t lda, const uint8_t* weights, int32_t steps,
                         int32_t segment, const int32_t* from, ptrdiff_t from_step, int32_t count,
                         int32_t* out) {
  using namespace requant;
  NarrowRows<NarrowInputs>(a, lda, weights, false, 0, steps, segment, from, from_step, count, out);
}

void rq_conv_narrow_bounds(const uint8_t* weights, int32_t steps, int32_t segment, int32_t input_lo,
                           int32_t input_hi, int32_t* bounds) {
  using namespace requant;
  // A lane's sum of products is extreme where positive weights meet one end of the inputs' range
  // and negative weights the other.
  const v128_t zero = wasm_i8x16_splat(0);
  const auto ends = [](int32_t even, int32_t odd) __attribute__((always_inline)) {
    return wasm_i32x4_splat(static_cast<int32_t>(static_cast<uint32_t>(odd) << 16) |
                            (even & 0xFFFF));
  };
  const v128_t low_first = ends(input_lo, input_hi), high_first = ends(input_hi, input_lo);
  v128_t least = zero, most = zero, full = zero;
  for (int32_t begin = 0; begin < steps; begin += segment) {
    const int32_t end = steps - begin < segment ? steps : begin + segment;
    RQ_UNROLL for (int half = 0; half < 2; ++half) {
      v128_t positive = zero, negative = zero;
      for (int32_t step = begin; step < end; ++step) {
        const v128_t w = wasm_v128_load(weights + step * 32 + half * 16);
        const v128_t more = wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_max(w, zero));
        const v128_t less = wasm_i16x8_extadd_pairwise_i8x16(wasm_i8x16_min(w, zero));
        positive = wasm_i16x8_add_sat(positive, more);
        negative = wasm_i16x8_add_sat(negative, less);
      }
      full = wasm_v128_or(full, wasm_i16x8_eq(positive, wasm_i16x8_splat(INT16_MAX)));
      full = wasm_v128_or(full, wasm_i16x8_eq(negative, wasm_i16x8_splat(INT16_MIN)));
      const v128_t low = wasm_i16x8_shuffle(positive, negative, 0, 8, 1, 9, 2, 10, 3, 11);
      const v128_t high = wasm_i16x8_shuffle(positive, negative, 4, 12, 5, 13, 6, 14, 7, 15);
      least = wasm_i32x4_min(least, wasm_i32x4_dot_i16x8(low, low_first));
      least = wasm_i32x4_min(least, wasm_i32x4_dot_i16x8(high, low_first));
      most = wasm_i32x4_max(most, wasm_i32x4_dot_i16x8(low, high_first));
      most = wasm_i32x4_max(most, wasm_i32x4_dot_i16x8(high, high_first));
    }
  }
  const bool fits = !wasm_v128_any_true(full);
  wasm_v128_store(bounds, fits ? least : wasm_i32x4_splat(INT32_MIN));
  wasm_v128_store(bounds + 4, fits ? most : wasm_i32x4_splat(INT32_MAX));
}

void rq_conv_q8_narrow(const requant::ConvQ8Params* p) {
  using namespace requant;
  using conv::kDot7Group, conv::kChannelBlock, conv::kEpilogueRows;
  const ConvGeometry& g = p->geometry;
  const conv::NarrowHeader* header = static_cast<const conv::NarrowHeader*>(p->weights);
  const int32_t steps = (conv::Depth(g) + kDot7Group - 1) / kDot7Group;
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const int32_t blocks = (group_out + kChannelBlock - 1) / kChannelBlock;
  const bool nibbles = header->nibbles != 0, sums = header->second != 0;
  const ptrdiff_t block_bytes =
      conv::kNarrowBlockHeader + static_cast<ptrdiff_t>(steps) * (nibbles ? 16 : 32);
  const int32_t zero_point = p->input_zero_point + header->input_add;
  const int32_t weight_add = sums ? 0 : header->offset;
  const bool in_place = !sums && p->input_packed == 0 && conv::IsPointwise(g) &&
                        header->input_add == 0 && group_in % kDot7Group == 0;
  const int32_t panel_rows = conv::NarrowPanelRows(g);
  int32_t* base = static_cast<int32_t*>(p->workspace);
  auto* codes = reinterpret_cast<conv::BlockCodes*>(base + kChannelBlock);
  int32_t* acc = base + kChannelBlock + conv::kNarrowCodesBytes / 4;
  int32_t* terms = acc + kEpilogueRows * kChannelBlock;
  uint8_t* unpacked = reinterpret_cast<uint8_t*>(terms + panel_rows);
  uint8_t* panel = unpacked + steps * 32;
  const uint8_t* first_block = reinterpret_cast<const uint8_t*>(header + 1);
  terms[0] = 0;
  const bool adds = p->residual != nullptr;
  // If blocks that can be made codes add the residual themselves, all other blocks must do so as
  // well.
  const bool to_codes = !sums && conv::CanMakeCodes(p) && conv::HasBytes(p);
  if (to_codes) conv::SetOutput(p, codes);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const bool unpack = nibbles && count >= kSmallTile;
    const Tiles tiles = Tiles::Of(count);
    const uint8_t* block = first_block;
    for (int32_t group = 0; group < g.groups; ++group) {
      const uint8_t* a = panel;
      ptrdiff_t lda = steps * kDot7Group;
      if (in_place) {
        lda = g.input_stride;
        a = static_cast<const uint8_t*>(p->input) + row * lda + group * group_in;
      } else if (p->input_packed != 0) {
        rq_conv_gather_nibbles(p, group * group_in, row, count, header->input_add, zero_point,
                               header->offset, panel, lda, sums ? terms : nullptr);
      } else if (sums) {
        rq_conv_gather_sums(p, group * group_in, row, count, header->input_add, zero_point,
                            header->offset, panel, lda, terms);
      } else {
        rq_conv_gather_bytes(p, group * group_in, row, count, header->input_add, zero_point, panel,
                             lda);
      }
      for (int32_t b = 0; b < blocks; ++b, block += block_bytes) {
        const int32_t channel = b * kChannelBlock;
        const int32_t n = group_out - channel < kChannelBlock ? group_out - channel : kChannelBlock;
        const auto& segment =
            *reinterpret_cast<const conv::NarrowSegment*>(block + conv::kNarrowSegment);
        const uint8_t* w = block + conv::kNarrowBlockHeader;
        if (unpack) {
          Unpack(w, steps, weight_add, unpacked);
          w = unpacked;
        }
        const int32_t out_channel = group * group_out + channel;
        int32_t r = 0;
        if (!sums) Bases(block, zero_point, terms, 1, base);
        if (to_codes && conv::SetCodes(p, segment, steps, base, out_channel, codes)) {
          r = RowsOf(tiles);
          if (adds) {
            CodeRows<true>(p, a, lda, w, steps, segment.steps, base, codes, tiles, row, out_channel,
                           acc);
          } else {
            CodeRows<false>(p, a, lda, w, steps, segment.steps, base, codes, tiles, row,
                            out_channel, acc);
          }
        }
        for (; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          if (sums) {
            Bases(block, zero_point, terms + r, strip, acc);
            NarrowRows<NarrowWeights>(a + r * lda, lda, w, nibbles && !unpack, weight_add, steps,
                                      segment.steps, acc, kChannelBlock, strip, acc);
          } else {
            NarrowRows<NarrowInputs>(a + r * lda, lda, w, nibbles && !unpack, weight_add, steps,
                                     segment.steps, base, 0, strip, acc);
          }
          bitserial::Finish(p, acc, row + r, strip, out_channel, n);
          if (to_codes && adds) rq_conv_add_residual(p, row + r, strip, out_channel, n);
        }
      }
    }
    if (!to_codes) conv::AddResidual(p, row, count);
  }
}

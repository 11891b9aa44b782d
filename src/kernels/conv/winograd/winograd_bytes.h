#pragma once
// The operands of Winograd's tiles of few bits: signed bytes of transformed weights times bytes of
// transformed codes. All transforms are modulo 256, so the signedness of codes and weights does not
// matter before they are multiplied. Freestanding.
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/conv/winograd/winograd_tiles.h"
#include "kernels/dot8.h"

namespace requant::conv {

struct WinogradPlainCodes {
  struct Source {};
  RQ_INLINE ptrdiff_t BytesOf(ptrdiff_t elements) { return elements; }
  RQ_INLINE Source SourceOf(const ConvQ8Params*) { return {}; }
  RQ_INLINE v128_t Load(const uint8_t* in, bool, Source) { return wasm_v128_load(in); }
};
/// Reads codes that are stored two to a byte, less the least one.
struct WinogradPackedCodes {
  struct Source {
    v128_t least, zero_point;
  };
  RQ_INLINE ptrdiff_t BytesOf(ptrdiff_t elements) { return elements / 2; }
  RQ_INLINE Source SourceOf(const ConvQ8Params* p) {
    return {wasm_i8x16_splat(static_cast<int8_t>(p->input_base)),
            wasm_i8x16_splat(static_cast<int8_t>(p->input_zero_point))};
  }
  /// Padding is the zero point itself, which may be none of the sixteen codes.
  RQ_INLINE v128_t Load(const uint8_t* in, bool inside, const Source& source) {
    const v128_t codes =
        wasm_i8x16_add(bitserial::UnpackLow(wasm_v128_load64_zero(in)), source.least);
    return wasm_v128_bitselect(codes, source.zero_point, wasm_i32x4_splat(inside ? -1 : 0));
  }
};

template <typename AnyTile, WinogradShape kAnyShape>
struct WinogradBytes {
  using Tile = AnyTile;
  static constexpr WinogradShape kShape = kAnyShape;
  static_assert(WinogradProductBytes(kShape) == WinogradProductBytes(kWinogradNarrow));
  static constexpr int32_t kStepBytes = kWinogradTaps * 16;
  using Block = WinogradNarrowBlock<kShape.WeightPoints()>;
  using Codes = WinogradPlainCodes;
  using PackedCodes = WinogradPackedCodes;
  struct Widening {
    v128_t mask, add;
  };
  RQ_INLINE v128_t Add(v128_t a, v128_t b) { return wasm_i8x16_add(a, b); }
  RQ_INLINE v128_t Sub(v128_t a, v128_t b) { return wasm_i8x16_sub(a, b); }
  RQ_INLINE v128_t Twice(v128_t x) { return simd::TwiceI8(x); }
  RQ_INLINE v128_t TwiceAny(v128_t x) { return simd::TwiceModuloI8(x); }
  RQ_INLINE v128_t Splat(int32_t x) { return wasm_i8x16_splat(static_cast<int8_t>(x)); }
  RQ_INLINE bool IsPacked(const ConvQ8Params* p) { return p->input_packed != 0; }
  RQ_INLINE Widening WidenWith(const void* header, int32_t steps) {
    const int32_t offset = static_cast<const WinogradNarrowHeader*>(header)->offset;
    return {simd::LoopConstant(int8_t{15}, static_cast<size_t>(steps)),
            wasm_i8x16_splat(static_cast<int8_t>(offset))};
  }
  /// The low nibbles are the first four output channels.
  RQ_INLINE void TapColumn(const uint8_t* packed, int x, int half, const Widening& with,
                           v128_t* out) {
    v128_t taps[3];
    RQ_UNROLL for (int y = 0; y < 3; ++y) {
      v128_t both = wasm_v128_load(packed + (3 * y + x) * 16);
      if (half != 0) both = wasm_u16x8_shr(both, 4);
      taps[y] = wasm_i8x16_add(wasm_v128_and(both, with.mask), with.add);
    }
    Tile::template TapColumn<WinogradBytes>(taps, out);
  }
  RQ_INLINE void StoreStarts(const ConvQ8Params* p, const Block* block, const WinogradAdds& adds,
                             int32_t* starts) {
    int32_t* out = starts;
    RQ_ROLLED for (int32_t i = 0; i < kShape.Lines(); ++i) {
      RQ_ROLLED for (int32_t j = 0; j < kShape.Columns(); ++j, out += kChannelBlock) {
        const int32_t* sums = block->point_sum[kShape.WeightPoint(i, j)];
        const v128_t add = wasm_i32x4_splat(-AddOf(adds, kShape.IsAlike(i), kShape.IsAlike(j)));
        wasm_v128_store(out, wasm_i32x4_mul(add, wasm_v128_load(sums)));
        wasm_v128_store(out + 4, wasm_i32x4_mul(add, wasm_v128_load(sums + 4)));
      }
    }
    int32_t* all = starts + kShape.SumOfAll() * kChannelBlock;
    RQ_UNROLL for (int half = 0; half < kChannelBlock; half += 4) {
      const v128_t base = wasm_i32x4_mul(simd::LoadBase(block->bias + half, p->input_zero_point),
                                         wasm_i32x4_splat(kShape.AllAlike()));
      wasm_v128_store(all + half, wasm_i32x4_add(base, wasm_v128_load(all + half)));
    }
  }
};

/// Multiplies kTiles tiles at all points in one call, as Tile of product.h does for one matrix; for
/// tiles too few to pass over. Dot::Add(w, x, acc) multiplies bytes.
template <typename Dot, WinogradShape kShape, int kTiles>
static __attribute__((noinline)) void MultiplyFewBytes(const uint8_t* panel, ptrdiff_t pitch,
                                                       const uint8_t* weights, int32_t steps,
                                                       const int32_t* from, ptrdiff_t from_point,
                                                       ptrdiff_t from_tile, int32_t* products) {
  for (int32_t point = 0; point < kShape.Points(); ++point) {
    v128_t acc0[kTiles], acc1[kTiles];
    const uint8_t* tiles[kTiles];
    RQ_UNROLL for (int i = 0; i < kTiles; ++i) {
      acc0[i] = wasm_v128_load(from + i * from_tile);
      acc1[i] = wasm_v128_load(from + i * from_tile + 4);
      tiles[i] = panel + i * pitch;
    }
    const uint8_t* w = weights + WeightBytesBefore(kShape.stride, point);
    for (int32_t step = 0; step < steps; ++step, w += 32) {
      const v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 16);
      RQ_UNROLL for (int i = 0; i < kTiles; ++i) {
        const v128_t x = wasm_v128_load32_splat(tiles[i]);
        acc0[i] = Dot::Add(w0, x, acc0[i]);
        acc1[i] = Dot::Add(w1, x, acc1[i]);
        tiles[i] += kWinogradGroup;
      }
    }
    RQ_UNROLL for (int i = 0; i < kTiles; ++i) {
      wasm_v128_store(products + i * kChannelBlock, acc0[i]);
      wasm_v128_store(products + i * kChannelBlock + 4, acc1[i]);
    }
    panel += kTiles * pitch;
    products += WinogradProductBytes(kShape) / 4;
    from += from_point;
  }
}

/// Multiplies `count` tiles at all points in one call, as Pass of product.h does for one matrix.
template <typename Dot>
static __attribute__((noinline)) void MultiplyBytes(int32_t points, int32_t stride,
                                                    const uint8_t* panel, ptrdiff_t pitch,
                                                    const uint8_t* weights, int32_t steps,
                                                    const int32_t* from, ptrdiff_t from_point,
                                                    ptrdiff_t from_tile, int32_t count,
                                                    int32_t* products) {
  constexpr int kUnroll = kWinogradVector / kWinogradGroup;
  for (int32_t point = 0; point < points; ++point) {
    const uint8_t* w = weights + WeightBytesBefore(stride, point);
    const int32_t* begin = from;
    ptrdiff_t begin_step = from_tile;
    for (int32_t k = 0; k < steps * kWinogradGroup; k += kWinogradVector) {
      v128_t w0[kUnroll], w1[kUnroll];
      RQ_UNROLL for (int u = 0; u < kUnroll; ++u) {
        w0[u] = wasm_v128_load(w + u * 32);
        w1[u] = wasm_v128_load(w + u * 32 + 16);
      }
      w += kUnroll * 32;
      const uint8_t* a = panel + k;
      const int32_t* in = begin;
      int32_t* out = products;
      for (int32_t row = 0; row < count; ++row) {
        v128_t acc0 = wasm_v128_load(in), acc1 = wasm_v128_load(in + 4);
        RQ_UNROLL for (int u = 0; u < kUnroll; ++u) {
          const v128_t x = wasm_v128_load32_splat(a + u * kWinogradGroup);
          acc0 = Dot::Add(w0[u], x, acc0);
          acc1 = Dot::Add(w1[u], x, acc1);
        }
        wasm_v128_store(out, acc0);
        wasm_v128_store(out + 4, acc1);
        a += pitch;
        in += begin_step;
        out += kChannelBlock;
      }
      begin = products;
      begin_step = kChannelBlock;
    }
    panel += count * pitch;
    products += WinogradProductBytes(kWinogradNarrow) / 4;
    from += from_point;
  }
}

}  // namespace requant::conv

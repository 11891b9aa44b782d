// 3x3 convolution of 8 bits with fewer products (winograd_tiles.h), on pairs of int16 as in
// vector_q8.cpp. Transformed inputs less their zero point are at most 4 * 255 and weights at most 9
// * 128 with tiles of 2 x 2 outputs, 100 * 255 and 144 * 128 with tiles of 4 x 4. With a stride of
// 2 both grow by a factor of at most four.
#include "kernels/conv/gather/gather.h"
#include "kernels/conv/product.h"
#include "kernels/conv/winograd/winograd_tile_2x2.h"
#include "kernels/conv/winograd/winograd_tile_4x4.h"
#include "kernels/conv/winograd/winograd_tile_strided.h"
#include "kernels/conv/winograd/winograd_tiles.h"

namespace requant {
namespace {

using conv::kChannelBlock, conv::WinogradShape;

struct PairCodes {
  RQ_INLINE ptrdiff_t BytesOf(ptrdiff_t elements) { return elements; }
  RQ_INLINE conv::WidenQ8 SourceOf(const ConvQ8Params* p) { return conv::WidenOf(p); }
  RQ_INLINE v128_t Load(const uint8_t* in, bool, const conv::WidenQ8& source) {
    return source.Eight(in);
  }
};

template <typename AnyTile, WinogradShape kAnyShape>
struct Pairs {
  using Codes = PairCodes;
  using PackedCodes = PairCodes;  // 8-bit inputs are never packed
  using Tile = AnyTile;
  using Block = conv::WinogradPairsBlock;
  static constexpr WinogradShape kShape = kAnyShape;
  static constexpr int32_t kStepBytes = conv::kWinogradTaps * 16;
  struct Widening {};
  RQ_INLINE v128_t Add(v128_t a, v128_t b) { return wasm_i16x8_add(a, b); }
  RQ_INLINE v128_t Sub(v128_t a, v128_t b) { return wasm_i16x8_sub(a, b); }
  RQ_INLINE v128_t Twice(v128_t x) { return wasm_i16x8_add(x, x); }
  RQ_INLINE v128_t TwiceAny(v128_t x) { return Twice(x); }
  RQ_INLINE bool IsPacked(const ConvQ8Params*) { return false; }
  RQ_INLINE Widening WidenWith(const void*, int32_t) { return {}; }
  RQ_INLINE void TapColumn(const uint8_t* packed, int x, int half, Widening, v128_t* out) {
    v128_t taps[3];
    RQ_UNROLL for (int y = 0; y < 3; ++y) {
      taps[y] = wasm_i16x8_load8x8(packed + (3 * y + x) * 16 + 8 * half);
    }
    Tile::template TapColumn<Pairs>(taps, out);
  }
  RQ_INLINE v128_t Splat(int32_t x) { return wasm_i16x8_splat(static_cast<int16_t>(x)); }
  RQ_INLINE void StoreStarts(const ConvQ8Params*, const Block* block, const conv::WinogradAdds&,
                             int32_t* starts) {
    RQ_ROLLED for (int32_t at = 0; at < kShape.Points() * kChannelBlock; at += 4) {
      wasm_v128_store(starts + at, wasm_i32x4_splat(0));
    }
    int32_t* all = starts + kShape.SumOfAll() * kChannelBlock;
    RQ_UNROLL for (int half = 0; half < kChannelBlock; half += 4) {
      wasm_v128_store(all + half, wasm_i32x4_mul(wasm_v128_load(block->bias + half),
                                                 wasm_i32x4_splat(kShape.AllAlike())));
    }
  }
};

constexpr ptrdiff_t kProductBytes = conv::WinogradProductBytes(conv::kWinogradPairs);

/// Multiplies four tiles at a time (product.h), at all points in one call. The last four may reach
/// behind `count`: a panel has room for that, and their products are never read.
__attribute__((noinline)) void Multiply(int32_t points, int32_t stride, const uint8_t* panel,
                                        ptrdiff_t pitch, const uint8_t* weights, int32_t steps,
                                        const int32_t* from, ptrdiff_t from_point,
                                        ptrdiff_t from_tile, int32_t count, int32_t* products) {
  constexpr int kRows = 4;
  using Op = conv::PairsOp<int16_t>;
  for (int32_t point = 0; point < points; ++point) {
    const uint8_t* a = panel + point * count * pitch;
    const uint8_t* at = weights + conv::WeightBytesBefore(stride, point);
    const int32_t* begin = from;
    int32_t* out = products;
    for (int32_t rest = count; rest > 0; rest -= kRows) {
      v128_t acc0[kRows], acc1[kRows];
      const uint8_t* rows[kRows];
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        acc0[i] = wasm_v128_load(begin + i * from_tile);
        acc1[i] = wasm_v128_load(begin + i * from_tile + 4);
        rows[i] = a + i * pitch;
      }
      const int16_t* w = reinterpret_cast<const int16_t*>(at);
      for (int32_t k = 0; k < steps * conv::kWinogradGroup; k += conv::kWinogradGroup, w += 16) {
        const v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 8);
        RQ_UNROLL for (int i = 0; i < kRows; ++i) {
          const v128_t x = wasm_v128_load32_splat(rows[i] + k);
          acc0[i] = Op::Dot(w0, x, acc0[i]);
          acc1[i] = Op::Dot(w1, x, acc1[i]);
        }
      }
      RQ_UNROLL for (int i = 0; i < kRows; ++i) {
        wasm_v128_store(out + i * kChannelBlock, acc0[i]);
        wasm_v128_store(out + i * kChannelBlock + 4, acc1[i]);
      }
      a += kRows * pitch;
      begin += kRows * from_tile;
      out += kRows * kChannelBlock;
    }
    products += kProductBytes / 4;
    from += from_point;
  }
}

template <typename Tile, WinogradShape kShape>
RQ_INLINE void Conv(const ConvQ8Params* p) {
  static_assert(conv::WinogradProductBytes(kShape) == kProductBytes);
  conv::ConvWinograd<Pairs<Tile, kShape>>(
      p, 0, conv::WinogradAdds{},
      [](const uint8_t* inputs, ptrdiff_t pitch, const uint8_t* weights, int32_t steps,
         const conv::WinogradPairsBlock*, const conv::WinogradFrom& from, int32_t count,
         int32_t* products) __attribute__((always_inline)) {
        Multiply(kShape.Points(), kShape.stride, inputs, pitch, weights, steps, from.at, from.point,
                 from.tile, count, products);
      },
      [p](int32_t * sums, int32_t row, int32_t rows, int32_t channel, int32_t n)
          __attribute__((always_inline)) { conv::Finish(p, sums, row, rows, channel, n); });
}

}  // namespace
}  // namespace requant

void rq_conv_q8_winograd_pairs(const requant::ConvQ8Params* p) {
  requant::Conv<requant::conv::Tile2x2, requant::conv::kWinogradPairs>(p);
}
void rq_conv_q8_winograd_4x4_pairs(const requant::ConvQ8Params* p) {
  requant::Conv<requant::conv::Tile4x4, requant::conv::kWinograd4x4Pairs>(p);
}
void rq_conv_q8_winograd_strided_pairs(const requant::ConvQ8Params* p) {
  requant::Conv<requant::conv::TileStrided, requant::conv::kWinogradStridedPairs>(p);
}

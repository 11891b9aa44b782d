// 3x3 convolution of few bits with fewer products (winograd_tiles.h), on bytes.
//
// Codes x of at most 32 neighbours, less the least, become B^T x B in +-2 range or, at point (1,
// 1), in 0 to 4 range. All but that one get 2 range added, so that they are bytes in [0, 127]; what
// this adds to the outputs (`excess`) is subtracted again. Weights of at most four bits become
// signed bytes of at most 9 * 14. Everything is modulo 256 until then, so the bytes' type is of no
// matter.
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/conv/narrow_rows.h"
#include "kernels/conv/winograd_tiles.h"
#include "kernels/dot8.h"

namespace requant {
namespace {

// int32 from one point's products to the next one's.
constexpr ptrdiff_t kPoint = conv::WinogradProductBytes(conv::kWinogradBytes) / 4;

using conv::kChannelBlock, conv::kWinogradGroup, conv::kWinogradPoints, conv::kWinogradVector;

RQ_INLINE const conv::WinogradNarrowHeader& HeaderOf(const ConvQ8Params* p) {
  return *static_cast<const conv::WinogradNarrowHeader*>(p->weights);
}

struct Bytes {
  using Block = conv::WinogradNarrowBlock;
  static constexpr int32_t kBytes = conv::kWinogradBytes;
  struct Source {};
  struct Widening {
    v128_t mask, add;
  };
  RQ_INLINE v128_t Add(v128_t a, v128_t b) { return wasm_i8x16_add(a, b); }
  RQ_INLINE v128_t Sub(v128_t a, v128_t b) { return wasm_i8x16_sub(a, b); }
  RQ_INLINE ptrdiff_t BytesOf(ptrdiff_t elements) { return elements; }
  RQ_INLINE Source SourceOf(const ConvQ8Params*) { return {}; }
  RQ_INLINE v128_t Load(const uint8_t* in, bool, Source) { return wasm_v128_load(in); }
  RQ_INLINE Widening WidenWith(int32_t offset, int32_t steps) {
    return {simd::LoopConstant(int8_t{15}, static_cast<size_t>(steps)),
            wasm_i8x16_splat(static_cast<int8_t>(offset))};
  }
  /// Low nibbles are the first four channels.
  RQ_INLINE v128_t Widen(const uint8_t* taps, int half, const Widening& with) {
    v128_t both = wasm_v128_load(taps);
    if (half != 0) both = wasm_u16x8_shr(both, 4);
    return wasm_i8x16_add(wasm_v128_and(both, with.mask), with.add);
  }
  RQ_INLINE void StoreTotals(const ConvQ8Params* p, const Block* block, int32_t* totals) {
    const int32_t zero_point = p->input_zero_point - HeaderOf(p).input_lo;
    RQ_UNROLL for (int half = 0; half < kChannelBlock; half += 4) {
      const v128_t base = wasm_i32x4_shl(simd::LoadBase(block->bias + half, zero_point), 2);
      RQ_UNROLL for (int o = 0; o < conv::kWinogradOutputs; ++o) {
        wasm_v128_store(totals + o * kChannelBlock + half,
                        wasm_i32x4_sub(base, wasm_v128_load(block->excess[o] + half)));
      }
    }
  }
};

/// The same from a packed input: codes less the least one, two to a byte.
struct Nibbles : Bytes {
  struct Source {
    v128_t least, zero_point;
  };
  RQ_INLINE ptrdiff_t BytesOf(ptrdiff_t elements) { return elements / 2; }
  RQ_INLINE Source SourceOf(const ConvQ8Params* p) {
    return {wasm_i8x16_splat(static_cast<int8_t>(p->input_base)),
            wasm_i8x16_splat(static_cast<int8_t>(p->input_zero_point))};
  }
  /// The zero point may be none of the sixteen.
  RQ_INLINE v128_t Load(const uint8_t* in, bool inside, const Source& source) {
    const v128_t codes =
        wasm_i8x16_add(bitserial::UnpackLow(wasm_v128_load64_zero(in)), source.least);
    return wasm_v128_bitselect(codes, source.zero_point, wasm_i32x4_splat(inside ? -1 : 0));
  }
};

/// As Pass of product.h, all in one call. Both operands are such that every engine agrees on the
/// products; where these are one instruction (rq_dot8) they are fast.
__attribute__((noinline)) void MultiplyDot8(const uint8_t* panel, ptrdiff_t pitch,
                                            const uint8_t* weights, int32_t steps,
                                            const int32_t* from, ptrdiff_t from_step, int32_t count,
                                            int32_t* products) {
  constexpr int kUnroll = kWinogradVector / kWinogradGroup;
  for (int32_t point = 0; point < kWinogradPoints; ++point) {
    const uint8_t* w = weights;
    const int32_t* begin = from;
    ptrdiff_t begin_step = from_step;
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
          acc0 = simd::DotI8I7Add(w0[u], x, acc0);
          acc1 = simd::DotI8I7Add(w1[u], x, acc1);
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
    weights += conv::kWinogradWeightBytes;
    products += kPoint;
    if (from_step != 0) from = products;
  }
}

/// The same by sums of int16 of so many steps (vector_narrow.cpp).
RQ_INLINE void MultiplyNarrow(const uint8_t* panel, ptrdiff_t pitch, const uint8_t* weights,
                              int32_t steps, int32_t segment, const int32_t* from,
                              ptrdiff_t from_step, int32_t count, int32_t* products) {
  for (int32_t point = 0; point < kWinogradPoints; ++point) {
    rq_conv_narrow_rows(panel, pitch, weights, steps, segment, from, from_step, count, products);
    panel += count * pitch;
    weights += conv::kWinogradWeightBytes;
    products += kPoint;
    if (from_step != 0) from = products;
  }
}

template <typename Operand>
RQ_INLINE void Conv(const ConvQ8Params* p) {
  const conv::WinogradNarrowHeader& header = HeaderOf(p);
  conv::ConvWinograd<Operand>(
      p, reinterpret_cast<const uint8_t*>(&header + 1), header.offset,
      wasm_i8x16_splat(static_cast<int8_t>(2 * header.input_range)),
      wasm_i8x16_splat(static_cast<int8_t>(-4 * header.input_lo)),
      [&header](const uint8_t* inputs, ptrdiff_t pitch, const uint8_t* weights, int32_t steps,
                const conv::WinogradNarrowBlock* block, const int32_t* from, ptrdiff_t from_step,
                int32_t count, int32_t* products) __attribute__((always_inline)) {
        if (header.dot8 != 0) {
          MultiplyDot8(inputs, pitch, weights, steps, from, from_step, count, products);
        } else {
          MultiplyNarrow(inputs, pitch, weights, steps, block->segment, from, from_step, count,
                         products);
        }
      },
      [p](int32_t * sums, int32_t row, int32_t rows, int32_t channel, int32_t n)
          __attribute__((always_inline)) { bitserial::Finish(p, sums, row, rows, channel, n); });
}

}  // namespace
}  // namespace requant

void rq_conv_q8_winograd_narrow(const requant::ConvQ8Params* p) {
  using namespace requant;
  if (p->input_packed != 0) {
    Conv<Nibbles>(p);
  } else {
    Conv<Bytes>(p);
  }
}

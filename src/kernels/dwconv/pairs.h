#pragma once
// Multiplies windows of int16 lines that are interleaved in vertical pairs: the inner loops of the
// depthwise kernels of 8 and 16 bits. Freestanding.
//
// Pair q holds input rows 2q and 2q + 1, counted from the top padding, as [padded
// column][channel][2 rows]. Weights are packed for windows that begin on either row of a pair:
//
//   pair           q               q + 1
//   first is even  (w0, w1)        (w2, 0)
//   first is odd   (0, w0)         (w1, w2)          (kernel of height 3)
#include "base/simd.h"
#include "kernels/dwconv/blocking.h"

namespace requant::dwconv {

RQ_INLINE v128_t DotPairs(v128_t acc, const int16_t* x, v128_t w) {
  return wasm_i32x4_add(acc, wasm_i32x4_dot_i16x8(wasm_v128_load(x), w));
}

/// Multiplies `count` pixels of four channels under a 3x3 window without horizontal dilation, which
/// is two pairs of rows. The six weight vectors and four accumulators stay in registers;
/// neighboring pixels share columns.
template <int kStride>
static __attribute__((noinline)) void Quad3x3(const int16_t* row0, const int16_t* row1,
                                              ptrdiff_t column, const int32_t* bias_at,
                                              const int16_t* weights, int32_t count, int32_t* acc,
                                              int32_t acc_stride) {
  v128_t w0[3], w1[3];
  RQ_UNROLL for (int i = 0; i < 3; ++i) {
    w0[i] = wasm_v128_load(weights + i * 8);
    w1[i] = wasm_v128_load(weights + (3 + i) * 8);
  }
  const v128_t bias = wasm_v128_load(bias_at);
  int32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    v128_t sum[4];
    RQ_UNROLL for (int j = 0; j < 4; ++j) sum[j] = bias;
    RQ_UNROLL for (int c = 0; c < 3 * kStride + 3; ++c) {
      const v128_t x0 = wasm_v128_load(row0), x1 = wasm_v128_load(row1);
      row0 += column;
      row1 += column;
      RQ_UNROLL for (int j = 0; j < 4; ++j) {
        const int kx = c - j * kStride;
        if (kx >= 0 && kx < 3) {
          sum[j] = wasm_i32x4_add(sum[j], wasm_i32x4_dot_i16x8(x0, w0[kx]));
          sum[j] = wasm_i32x4_add(sum[j], wasm_i32x4_dot_i16x8(x1, w1[kx]));
        }
      }
    }
    row0 -= (3 - kStride) * column;
    row1 -= (3 - kStride) * column;
    RQ_UNROLL for (int j = 0; j < 4; ++j) wasm_v128_store(acc + j * acc_stride, sum[j]);
    acc += 4 * acc_stride;
  }
  for (; i < count; ++i) {
    v128_t sum = bias;
    RQ_UNROLL for (int kx = 0; kx < 3; ++kx) {
      sum = DotPairs(sum, row0 + kx * column, w0[kx]);
      sum = DotPairs(sum, row1 + kx * column, w1[kx]);
    }
    wasm_v128_store(acc, sum);
    row0 += kStride * column;
    row1 += kStride * column;
    acc += acc_stride;
  }
}

/// Multiplies `count` pixels of four channels under any window. Its pairs of rows lie in a ring of
/// `slots`, from first_slot on.
static __attribute__((noinline)) void QuadAny(const int16_t* ring, ptrdiff_t slot_elements,
                                              int32_t slots, int32_t first_slot, int32_t pairs,
                                              int32_t kernel_w, ptrdiff_t tap, ptrdiff_t next,
                                              const int32_t* bias_at, const int16_t* weights,
                                              int32_t count, int32_t* acc, int32_t acc_stride) {
  const v128_t bias = wasm_v128_load(bias_at);
  int32_t i = 0;
  for (; i + 4 <= count; i += 4, ring += 4 * next) {
    v128_t sum0 = bias, sum1 = bias, sum2 = bias, sum3 = bias;
    const int16_t* w = weights;
    int32_t slot = first_slot;
    for (int32_t q = 0; q < pairs; ++q) {
      const int16_t* x = ring + slot * slot_elements;
      for (int32_t kx = 0; kx < kernel_w; ++kx, w += 8, x += tap) {
        const v128_t weight = wasm_v128_load(w);
        sum0 = DotPairs(sum0, x, weight);
        sum1 = DotPairs(sum1, x + next, weight);
        sum2 = DotPairs(sum2, x + 2 * next, weight);
        sum3 = DotPairs(sum3, x + 3 * next, weight);
      }
      if (++slot == slots) slot = 0;
    }
    wasm_v128_store(acc, sum0);
    wasm_v128_store(acc + acc_stride, sum1);
    wasm_v128_store(acc + 2 * acc_stride, sum2);
    wasm_v128_store(acc + 3 * acc_stride, sum3);
    acc += 4 * acc_stride;
  }
  for (; i < count; ++i, ring += next, acc += acc_stride) {
    v128_t sum = bias;
    const int16_t* w = weights;
    int32_t slot = first_slot;
    for (int32_t q = 0; q < pairs; ++q) {
      const int16_t* x = ring + slot * slot_elements;
      for (int32_t kx = 0; kx < kernel_w; ++kx, w += 8, x += tap) {
        sum = DotPairs(sum, x, wasm_v128_load(w));
      }
      if (++slot == slots) slot = 0;
    }
    wasm_v128_store(acc, sum);
  }
}

/// Multiplies all quads of a channel group for `count` pixels from ox on; accumulators are
/// [pixel][group].
RQ_INLINE void MultiplyPairs(const ConvGeometry& g, const int16_t* ring, ptrdiff_t slot_elements,
                             int32_t slots, int32_t first_slot, int32_t odd, int32_t group,
                             int32_t n, const uint8_t* weights, int32_t ox, int32_t count,
                             int32_t* acc) {
  const int32_t quad_bytes = Q8QuadBytes(g.kernel_h, g.kernel_w);
  const int32_t even_pairs = EvenPairs(g.kernel_h);
  const int32_t pairs = odd ? OddPairs(g.kernel_h) : even_pairs;
  const ptrdiff_t parity_offset = odd ? PairElements(even_pairs, g.kernel_w) : 0;
  const ptrdiff_t column = 2 * static_cast<ptrdiff_t>(group);
  const bool small = pairs == 2 && g.kernel_w == 3 && g.dilation_w == 1;
  const int16_t* in = ring + ox * g.stride_w * column;
  const int32_t second_slot = first_slot + 1 == slots ? 0 : first_slot + 1;
  for (int32_t c = 0; c < n; c += kQuad, weights += quad_bytes, in += 2 * kQuad, acc += kQuad) {
    const int32_t* bias = reinterpret_cast<const int32_t*>(weights);
    const int16_t* w = reinterpret_cast<const int16_t*>(weights + kQuad * 4) + parity_offset;
    if (small && g.stride_w == 1) {
      Quad3x3<1>(in + first_slot * slot_elements, in + second_slot * slot_elements, column, bias, w,
                 count, acc, group);
    } else if (small && g.stride_w == 2) {
      Quad3x3<2>(in + first_slot * slot_elements, in + second_slot * slot_elements, column, bias, w,
                 count, acc, group);
    } else {
      QuadAny(in, slot_elements, slots, first_slot, pairs, g.kernel_w, g.dilation_w * column,
              g.stride_w * column, bias, w, count, acc, group);
    }
  }
}

}  // namespace requant::dwconv

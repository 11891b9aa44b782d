// float32 depthwise convolution, vector form: four channels at a time along an output row.
//
// Where the whole window lies inside the image horizontally, four neighboring pixels are computed
// together; one vector of zeros, which is never stepped over, replaces rows above or below the
// image. Pixels at the left and right border are computed one at a time and skip the taps outside.
// On every path each output starts at the bias and sums its taps in the order (ky, kx).
#include "base/simd.h"
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/kernel.h"
#include "kernels/output_lines.h"

namespace requant {
namespace {

using dwconv::kQuad;

/// Computes one pixel under any window, n channels (1..4).
template <bool kFused>
RQ_INLINE void Pixel(const DwConvF32Params* p, const float* image, const float* w, int32_t oy,
                     int32_t ox, float* out, int32_t n, v128_t lo, v128_t hi) {
  const ConvGeometry& g = p->geometry;
  v128_t acc = wasm_v128_load(w);
  w += kQuad;
  const int32_t y0 = oy * g.stride_h - g.pad_top, x0 = ox * g.stride_w - g.pad_left;
  for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
    const int32_t y = y0 + ky * g.dilation_h;
    if (y < 0 || y >= g.in_h) {
      w += kQuad * g.kernel_w;
      continue;
    }
    for (int32_t kx = 0; kx < g.kernel_w; ++kx, w += kQuad) {
      const int32_t x = x0 + kx * g.dilation_w;
      if (x < 0 || x >= g.in_w) continue;
      const float* in = image + static_cast<ptrdiff_t>(y * g.in_w + x) * g.input_stride;
      acc = simd::MulAddF32<kFused>(simd::LoadPartial(in, n), wasm_v128_load(w), acc);
    }
  }
  simd::StorePartial(out, simd::ClampF32(acc, lo, hi), n);
}

/// Computes four neighboring interior pixels of a 3x3 window without dilation; column c of row r
/// is at row_r + c * step_r.
template <int kStride>
RQ_INLINE void Four3x3(const float* row0, ptrdiff_t step0, const float* row1, ptrdiff_t step1,
                       const float* row2, ptrdiff_t step2, v128_t bias, const v128_t (&w)[9],
                       float* out, ptrdiff_t out_step, v128_t lo, v128_t hi) {
  v128_t acc[4];
  RQ_UNROLL for (int i = 0; i < 4; ++i) acc[i] = bias;
  RQ_UNROLL for (int r = 0; r < 3; ++r) {
    const float* in = r == 0 ? row0 : r == 1 ? row1 : row2;
    const ptrdiff_t step = r == 0 ? step0 : r == 1 ? step1 : step2;
    RQ_UNROLL for (int column = 0; column < 3 * kStride + 3; ++column) {
      const v128_t x = wasm_v128_load(in);
      in += step;
      RQ_UNROLL for (int i = 0; i < 4; ++i) {
        const int kx = column - i * kStride;
        if (kx >= 0 && kx < 3) acc[i] = simd::MulAddF32<true>(x, w[r * 3 + kx], acc[i]);
      }
    }
  }
  RQ_UNROLL for (int i = 0; i < 4; ++i) {
    wasm_v128_store(out + i * out_step, simd::ClampF32(acc[i], lo, hi));
  }
}

/// Computes interior pixels [ox, end) of a 3x3 window without dilation, four channels; returns the
/// first pixel left over.
template <int kStride>
__attribute__((noinline)) int32_t Row3x3(const DwConvF32Params* p, const float* image,
                                         const float* packed, int32_t oy, int32_t ox, int32_t end,
                                         float* out) {
  const ConvGeometry& g = p->geometry;
  const v128_t lo = wasm_f32x4_splat(p->lo), hi = wasm_f32x4_splat(p->hi);
  float* zeros = static_cast<float*>(p->workspace);
  const int32_t y0 = oy * kStride - g.pad_top;
  const ptrdiff_t pixel = g.input_stride, line = pixel * g.in_w;
  const float* first =
      image + y0 * line + static_cast<ptrdiff_t>(ox * kStride - g.pad_left) * pixel;
  const bool in0 = y0 >= 0 && y0 < g.in_h;
  const bool in1 = y0 + 1 >= 0 && y0 + 1 < g.in_h;
  const bool in2 = y0 + 2 >= 0 && y0 + 2 < g.in_h;
  const ptrdiff_t step0 = in0 ? pixel : 0, step1 = in1 ? pixel : 0, step2 = in2 ? pixel : 0;
  const float* row0 = in0 ? first : zeros;
  const float* row1 = in1 ? first + line : zeros;
  const float* row2 = in2 ? first + 2 * line : zeros;
  v128_t w[9];
  const v128_t bias = wasm_v128_load(packed);
  RQ_UNROLL for (int i = 0; i < 9; ++i) w[i] = wasm_v128_load(packed + (i + 1) * kQuad);
  for (; ox + 4 <= end; ox += 4) {
    Four3x3<kStride>(row0, step0, row1, step1, row2, step2, bias, w, out, g.output_stride, lo, hi);
    row0 += 4 * kStride * step0;
    row1 += 4 * kStride * step1;
    row2 += 4 * kStride * step2;
    out += 4 * g.output_stride;
  }
  return ox;
}

/// Computes interior pixels [ox, end) under any window, four channels; returns the first pixel left
/// over.
template <bool kFused>
__attribute__((noinline)) int32_t RowAny(const DwConvF32Params* p, const float* image,
                                         const float* packed, int32_t oy, int32_t ox, int32_t end,
                                         float* out) {
  const ConvGeometry& g = p->geometry;
  const v128_t lo = wasm_f32x4_splat(p->lo), hi = wasm_f32x4_splat(p->hi);
  const v128_t bias = wasm_v128_load(packed);
  const ptrdiff_t tap = static_cast<ptrdiff_t>(g.dilation_w) * g.input_stride;
  const ptrdiff_t next = static_cast<ptrdiff_t>(g.stride_w) * g.input_stride;
  for (; ox + 4 <= end; ox += 4, out += 4 * static_cast<ptrdiff_t>(g.output_stride)) {
    v128_t acc0 = bias, acc1 = bias, acc2 = bias, acc3 = bias;
    const float* w = packed + kQuad;
    for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
      const int32_t y = oy * g.stride_h - g.pad_top + ky * g.dilation_h;
      if (y < 0 || y >= g.in_h) {
        w += kQuad * g.kernel_w;
        continue;
      }
      const float* in = image + static_cast<ptrdiff_t>(y * g.in_w + ox * g.stride_w - g.pad_left) *
                                    g.input_stride;
      for (int32_t kx = 0; kx < g.kernel_w; ++kx, w += kQuad, in += tap) {
        const v128_t weight = wasm_v128_load(w);
        acc0 = simd::MulAddF32<kFused>(wasm_v128_load(in), weight, acc0);
        acc1 = simd::MulAddF32<kFused>(wasm_v128_load(in + next), weight, acc1);
        acc2 = simd::MulAddF32<kFused>(wasm_v128_load(in + 2 * next), weight, acc2);
        acc3 = simd::MulAddF32<kFused>(wasm_v128_load(in + 3 * next), weight, acc3);
      }
    }
    const ptrdiff_t step = g.output_stride;
    wasm_v128_store(out, simd::ClampF32(acc0, lo, hi));
    wasm_v128_store(out + step, simd::ClampF32(acc1, lo, hi));
    wasm_v128_store(out + 2 * step, simd::ClampF32(acc2, lo, hi));
    wasm_v128_store(out + 3 * step, simd::ClampF32(acc3, lo, hi));
  }
  return ox;
}

/// Computes pixels [ox, end) under any window one by one, n channels (1..4); `out` points to pixel
/// 0.
template <bool kFused>
__attribute__((noinline)) void OneByOne(const DwConvF32Params* p, const float* image,
                                        const float* w, int32_t oy, int32_t ox, int32_t end,
                                        float* out, int32_t n) {
  const v128_t lo = wasm_f32x4_splat(p->lo), hi = wasm_f32x4_splat(p->hi);
  for (; ox < end; ++ox) {
    Pixel<kFused>(p, image, w, oy, ox, out + static_cast<ptrdiff_t>(ox) * p->geometry.output_stride,
                  n, lo, hi);
  }
}

/// Computes pixels [begin, end) of one output row.
RQ_INLINE void Segment(const DwConvF32Params* p, const float* image, float* out_row, int32_t oy,
                       int32_t begin, int32_t end) {
  const ConvGeometry& g = p->geometry;
  // Interior pixels have ox * stride >= pad, and their last tap is left of the image's right end.
  int32_t first = (g.pad_left + g.stride_w - 1) / g.stride_w;
  const int32_t room = g.in_w - 1 + g.pad_left - (g.kernel_w - 1) * g.dilation_w;
  int32_t last = room < 0 ? 0 : room / g.stride_w + 1;
  if (first < begin) first = begin;
  if (last > end) last = end;
  const bool fused = !(simd::kMayFuse && p->portable != 0);
  // The unfused form has no code of its own for small windows, which would not pay.
  const bool small =
      fused && g.kernel_h == 3 && g.kernel_w == 3 && g.dilation_h == 1 && g.dilation_w == 1;
  const auto one_by_one = [&](int32_t channel, int32_t from, int32_t to, const float* weights,
                              int32_t n) __attribute__((always_inline)) {
    if (fused) {
      OneByOne<true>(p, image + channel, weights, oy, from, to, out_row + channel, n);
    } else {
      OneByOne<false>(p, image + channel, weights, oy, from, to, out_row + channel, n);
    }
  };
  const ptrdiff_t quad_floats = static_cast<ptrdiff_t>(g.kernel_h * g.kernel_w + 1) * kQuad;
  const float* w = static_cast<const float*>(p->weights);
  for (int32_t c = 0; c < g.out_c; c += kQuad, w += quad_floats) {
    const int32_t n = g.out_c - c < kQuad ? g.out_c - c : kQuad;
    int32_t ox = begin;
    if (n == kQuad && first < last) {
      one_by_one(c, ox, first, w, n);
      ox = first;
      float* out = out_row + static_cast<ptrdiff_t>(ox) * g.output_stride + c;
      if (small && g.stride_h == 1 && g.stride_w == 1) {
        ox = Row3x3<1>(p, image + c, w, oy, ox, last, out);
      } else if (small && g.stride_h == 2 && g.stride_w == 2) {
        ox = Row3x3<2>(p, image + c, w, oy, ox, last, out);
      } else {
        ox = fused ? RowAny<true>(p, image + c, w, oy, ox, last, out)
                   : RowAny<false>(p, image + c, w, oy, ox, last, out);
      }
    }
    one_by_one(c, ox, end, w, n);
  }
}

}  // namespace
}  // namespace requant

void rq_dwconv_f32(const requant::DwConvF32Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  wasm_v128_store(p->workspace, wasm_f32x4_splat(0.0f));
  ForEachLine(
      g, p->row_begin, p->row_end, [&](const OutputLine& at) __attribute__((always_inline)) {
        const ptrdiff_t pixel = at.row - at.begin;
        Segment(p, p->input + static_cast<ptrdiff_t>(at.image) * g.in_h * g.in_w * g.input_stride,
                p->output + pixel * g.output_stride, at.y, at.begin, at.end);
      });
}

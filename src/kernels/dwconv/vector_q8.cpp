// 8-bit depthwise convolution, vector form.
//
// i32x4.dot_i16x8 adds two products per lane, so the kernel takes the taps in vertical pairs. Input
// rows are converted two by two, once, to [padded column][channel][2 rows] of int16 with the zero
// point subtracted and all padding written out as 0; the loops behind that have no border cases.
// Pair q holds input rows 2q and 2q + 1, counted from the top padding. Weights are packed for
// windows that begin on either row of a pair:
//
//   pair           q               q + 1
//   first is even  (w0, w1)        (w2, 0)
//   first is odd   (0, w0)         (w1, w2)          (kernel of height 3)
//
// Neighboring output rows share the converted pairs, which live in a ring in the workspace
// (ring.h).
#include "base/simd.h"
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/kernel.h"
#include "kernels/dwconv/pairs.h"
#include "kernels/dwconv/ring.h"

namespace requant {
namespace {

using dwconv::kQuad;

RQ_INLINE v128_t Widen(const uint8_t* in) { return wasm_u16x8_load8x8(in); }
RQ_INLINE v128_t Widen(const int8_t* in) { return wasm_i16x8_load8x8(in); }

/// Converts eight channels of both rows; a row outside the image is masked out.
template <bool kMasked, typename T>
RQ_INLINE void ConvertEight(const T* in_a, const T* in_b, v128_t zero_point, v128_t mask_a,
                            v128_t mask_b, int16_t* out) {
  v128_t a = wasm_i16x8_sub(Widen(in_a), zero_point);
  v128_t b = wasm_i16x8_sub(Widen(in_b), zero_point);
  if (kMasked) {
    a = wasm_v128_and(a, mask_a);
    b = wasm_v128_and(b, mask_b);
  }
  wasm_v128_store(out, wasm_i16x8_shuffle(a, b, 0, 8, 1, 9, 2, 10, 3, 11));
  wasm_v128_store(out + 8, wasm_i16x8_shuffle(a, b, 4, 12, 5, 13, 6, 14, 7, 15));
}

/// Converts columns of n channels, eight at a time; the last eight overlap those before.
template <bool kMasked, typename T>
RQ_INLINE void ConvertColumns(const T* in_a, const T* in_b, int32_t columns, ptrdiff_t in_step,
                              int32_t n, int32_t zero, v128_t mask_a, v128_t mask_b, int16_t* out,
                              ptrdiff_t out_step) {
  const v128_t zero_point = wasm_i16x8_splat(static_cast<int16_t>(zero));
  for (int32_t x = 0; x < columns; ++x, in_a += in_step, in_b += in_step, out += out_step) {
    if (n >= 8) {
      for (int32_t c = 0; c + 8 <= n; c += 8) {
        ConvertEight<kMasked>(in_a + c, in_b + c, zero_point, mask_a, mask_b, out + 2 * c);
      }
      if (n & 7) {
        const int32_t c = n - 8;
        ConvertEight<kMasked>(in_a + c, in_b + c, zero_point, mask_a, mask_b, out + 2 * c);
      }
      continue;
    }
    const bool has_a = wasm_v128_any_true(mask_a), has_b = wasm_v128_any_true(mask_b);
    for (int32_t c = 0; c < n; ++c) {
      out[2 * c] = static_cast<int16_t>(has_a ? in_a[c] - zero : 0);
      out[2 * c + 1] = static_cast<int16_t>(has_b ? in_b[c] - zero : 0);
    }
  }
}

/// Converts one pair of input rows, channels [channel, channel + n), to `out`, `group` channels per
/// column. A row outside the image (index < 0 or >= in_h) counts as padding.
template <typename T>
RQ_INLINE void ConvertPair(const DwConvQ8Params* p, const T* image, int32_t row_a, int32_t row_b,
                           int32_t channel, int32_t n, int32_t group, int16_t* out) {
  const ConvGeometry& g = p->geometry;
  const int32_t width = dwconv::PaddedWidth(g);
  const ptrdiff_t column = 2 * static_cast<ptrdiff_t>(group);
  const ptrdiff_t line = static_cast<ptrdiff_t>(g.in_w) * g.input_stride;
  const bool has_a = row_a >= 0 && row_a < g.in_h, has_b = row_b >= 0 && row_b < g.in_h;
  int32_t first = g.pad_left < width ? g.pad_left : width;
  int32_t last = g.pad_left + g.in_w < width ? g.pad_left + g.in_w : width;
  if (!has_a && !has_b) first = last = width;
  const v128_t zero = wasm_i16x8_splat(0);
  for (ptrdiff_t i = 0; i < first * column; i += 8) wasm_v128_store(out + i, zero);
  for (ptrdiff_t i = last * column; i < width * column; i += 8) wasm_v128_store(out + i, zero);
  if (first >= last) return;

  // A row outside the image reads the other row instead and is masked out.
  const v128_t mask_a = wasm_i16x8_splat(has_a ? -1 : 0);
  const v128_t mask_b = wasm_i16x8_splat(has_b ? -1 : 0);
  const T* in_a = image + (has_a ? row_a : row_b) * line + channel;
  const T* in_b = image + (has_b ? row_b : row_a) * line + channel;
  out += first * column;
  if (has_a && has_b) {
    ConvertColumns<false>(in_a, in_b, last - first, g.input_stride, n, p->input_zero_point, mask_a,
                          mask_b, out, column);
  } else {
    ConvertColumns<true>(in_a, in_b, last - first, g.input_stride, n, p->input_zero_point, mask_a,
                         mask_b, out, column);
  }
}

__attribute__((noinline)) void Convert(const DwConvQ8Params* p, int32_t image, int32_t row_a,
                                       int32_t row_b, int32_t channel, int32_t n, int32_t group,
                                       int16_t* out) {
  const ConvGeometry& g = p->geometry;
  const ptrdiff_t offset = static_cast<ptrdiff_t>(image) * g.in_h * g.in_w * g.input_stride;
  if (p->input_signed) {
    ConvertPair(p, static_cast<const int8_t*>(p->input) + offset, row_a, row_b, channel, n, group,
                out);
  } else {
    ConvertPair(p, static_cast<const uint8_t*>(p->input) + offset, row_a, row_b, channel, n, group,
                out);
  }
}

}  // namespace
}  // namespace requant

void rq_dwconv_q8(const requant::DwConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t slots = dwconv::OddPairs(g.kernel_h);
  const int32_t group = dwconv::ChannelGroup(g, slots);
  const ptrdiff_t slot_elements = static_cast<ptrdiff_t>(dwconv::PaddedWidth(g)) * group * 2;
  int32_t* acc = static_cast<int32_t*>(p->workspace);
  int16_t* ring = reinterpret_cast<int16_t*>(acc + dwconv::kStripElements);
  const ptrdiff_t quad_bytes = dwconv::Q8QuadBytes(g.kernel_h, g.kernel_w);
  dwconv::WalkRing<2>(
      p, group, slots, acc,
      [=](int32_t image, int32_t row, int32_t step, int32_t channel, int32_t n, int32_t slot)
          __attribute__((always_inline)) {
            Convert(p, image, row, row + step, channel, n, group, ring + slot * slot_elements);
          },
      [=](int32_t channel, int32_t n, int32_t slot, int32_t odd, int32_t ox, int32_t count)
          __attribute__((always_inline)) {
            const uint8_t* weights =
                static_cast<const uint8_t*>(p->weights) + channel / kQuad * quad_bytes;
            dwconv::MultiplyPairs(p->geometry, ring, slot_elements, slots, slot, odd, group, n,
                                  weights, ox, count, acc);
          },
      [=](const dwconv::Results& results)
          __attribute__((always_inline)) { dwconv::FinishBytes(p, results); });
}

// 8-bit convolution of few input channels (an image's first layer), vector form.
//
// The arithmetic of vector_q8.cpp without its panel: with 27 values under a window, gathering them
// costs more than multiplying them. Input lines are converted once, to int16 with the zero point
// subtracted and all padding written out, and live in a ring in the workspace that neighbouring
// output rows share. A window's values on one line are a run of kernel_w * in_c there, and the runs
// of the next pixel start stride_w * in_c further on: the register tile reads them in place. Each
// run is padded to whole pairs by a weight of 0, so the value behind it does not matter.
#include "kernels/conv/blocking.h"
#include "kernels/conv/finish.h"
#include "kernels/conv/gather.h"
#include "kernels/conv/kernel.h"
#include "kernels/simd.h"

namespace requant {
namespace {

using conv::kChannelBlock;
using conv::kEpilogueRows;

constexpr int32_t kTile = 6;

RQ_INLINE v128_t LoadPairs(const int8_t* w) { return wasm_i16x8_load8x8(w); }
RQ_INLINE v128_t LoadPairs(const int16_t* w) { return wasm_v128_load(w); }

/// The lines under the windows of one output row.
struct Lines {
  const int16_t* ring;
  ptrdiff_t line_elements;
  int32_t first, slots;  ///< slot of the window's first line; lines in the ring
  int32_t kernel_h, pairs;
  ptrdiff_t step;  ///< elements from one output pixel's values to the next one's
};

template <int kRows, typename Weight>
RQ_INLINE void Pair(const int16_t* const (&rows)[kRows], int offset, const Weight* w,
                    v128_t (&acc0)[kRows], v128_t (&acc1)[kRows]) {
  const v128_t b0 = LoadPairs(w), b1 = LoadPairs(w + 8);
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    const v128_t x = wasm_v128_load32_splat(rows[i] + offset);
    acc0[i] = wasm_i32x4_add(acc0[i], wasm_i32x4_dot_i16x8(x, b0));
    acc1[i] = wasm_i32x4_add(acc1[i], wasm_i32x4_dot_i16x8(x, b1));
  }
}

/// acc[kRows][8] = bias + sum, for kRows pixels whose first values lie at `at` of their lines.
/// kPairs: pairs of a line, 0 if only known at run time.
template <int kRows, int kPairs, typename Weight>
__attribute__((noinline)) void Tile(const int16_t* ring, ptrdiff_t line_elements, int32_t slot,
                                    int32_t slots, int32_t kernel_h, int32_t pairs, ptrdiff_t step,
                                    ptrdiff_t at, const int32_t* bias, const Weight* w,
                                    int32_t* out) {
  v128_t acc0[kRows], acc1[kRows];
  const v128_t bias0 = wasm_v128_load(bias), bias1 = wasm_v128_load(bias + 4);
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    acc0[i] = bias0;
    acc1[i] = bias1;
  }
  for (int32_t y = 0; y < kernel_h; ++y) {
    const int16_t* rows[kRows];
    const int16_t* first = ring + slot * line_elements + at;
    RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] = first + i * step;
    if (kPairs > 0) {
      RQ_UNROLL for (int k = 0; k < kPairs; ++k) Pair(rows, 2 * k, w + 16 * k, acc0, acc1);
      w += 16 * kPairs;
    } else {
      for (int32_t k = 0; k < pairs; ++k, w += 16) {
        Pair(rows, 0, w, acc0, acc1);
        RQ_UNROLL for (int i = 0; i < kRows; ++i) rows[i] += 2;
      }
    }
    if (++slot == slots) slot = 0;
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    wasm_v128_store(out + i * kChannelBlock, acc0[i]);
    wasm_v128_store(out + i * kChannelBlock + 4, acc1[i]);
  }
}

/// `count` pixels from output column ox on against one block of weights.
template <int kPairs, typename Weight>
RQ_INLINE void Pixels(const Lines& l, int32_t ox, const uint8_t* block, int32_t count,
                      int32_t* out) {
  const int32_t* bias = reinterpret_cast<const int32_t*>(block);
  const Weight* w = reinterpret_cast<const Weight*>(block + kChannelBlock * 4);
  ptrdiff_t at = ox * l.step;
  for (; count >= kTile; count -= kTile, at += kTile * l.step, out += kTile * kChannelBlock) {
    Tile<kTile, kPairs, Weight>(l.ring, l.line_elements, l.first, l.slots, l.kernel_h, l.pairs,
                                l.step, at, bias, w, out);
  }
  if (count >= 4) {
    Tile<4, kPairs, Weight>(l.ring, l.line_elements, l.first, l.slots, l.kernel_h, l.pairs, l.step,
                            at, bias, w, out);
    count -= 4, at += 4 * l.step, out += 4 * kChannelBlock;
  }
  for (; count >= 1; --count, at += l.step, out += kChannelBlock) {
    Tile<1, kPairs, Weight>(l.ring, l.line_elements, l.first, l.slots, l.kernel_h, l.pairs, l.step,
                            at, bias, w, out);
  }
}

/// Input line y of an image, or a line of padding.
template <typename T>
RQ_INLINE void ConvertLine(const ConvQ8Params* p, int32_t image, int32_t y, int16_t* out) {
  using Op = conv::WidenQ8<T>;
  const ConvGeometry& g = p->geometry;
  const int32_t width = conv::PaddedWidth(g);
  if (y < 0 || y >= g.in_h) {
    Op::Fill(width * g.in_c, 0, out);
    return;
  }
  const int32_t first = g.pad_left < width ? g.pad_left : width;
  const int32_t last = g.pad_left + g.in_w < width ? g.pad_left + g.in_w : width;
  if (first > 0) Op::Fill(first * g.in_c, 0, out);
  const T* in = static_cast<const T*>(p->input) +
                static_cast<ptrdiff_t>((image * g.in_h + y) * g.in_w) * g.input_stride;
  out += first * g.in_c;
  if (g.input_stride == g.in_c) {
    if (last > first) Op::Copy(in, (last - first) * g.in_c, p->input_zero_point, out);
    out += (last - first) * g.in_c;
  } else {
    for (int32_t x = first; x < last; ++x, in += g.input_stride, out += g.in_c) {
      Op::Copy(in, g.in_c, p->input_zero_point, out);
    }
  }
  if (last < width) Op::Fill((width - last) * g.in_c, 0, out);
}

__attribute__((noinline)) void Convert(const ConvQ8Params* p, int32_t image, int32_t y,
                                       int16_t* out) {
  if (p->input_signed) {
    ConvertLine<int8_t>(p, image, y, out);
  } else {
    ConvertLine<uint8_t>(p, image, y, out);
  }
}

}  // namespace
}  // namespace requant

void rq_conv_q8_lines(const requant::ConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  Lines l;
  l.line_elements = conv::LineElements(g);
  l.slots = l.kernel_h = g.kernel_h;
  l.pairs = (g.kernel_w * g.in_c + 1) / 2;
  l.step = static_cast<ptrdiff_t>(g.stride_w) * g.in_c;
  const bool wide = static_cast<const conv::PackedQ8Header*>(p->weights)->wide != 0;
  const ptrdiff_t block_bytes =
      kChannelBlock * 4 + kChannelBlock * 2 * l.pairs * g.kernel_h * (wide ? 2 : 1);
  int32_t* acc = static_cast<int32_t*>(p->workspace);
  int16_t* ring =
      reinterpret_cast<int16_t*>(static_cast<uint8_t*>(p->workspace) + conv::kEpilogueBytes);
  l.ring = ring;

  int32_t converted = 0;  // lines, counted from the top padding, below this one are in the ring
  int32_t converted_image = -1;
  int32_t row = p->row_begin;
  while (row < p->row_end) {
    const int32_t begin = row % g.out_w, line = row / g.out_w;
    const int32_t oy = line % g.out_h, image = line / g.out_h;
    int32_t end = g.out_w;
    if (p->row_end - row < end - begin) end = begin + (p->row_end - row);
    const int32_t top = oy * g.stride_h;
    if (image != converted_image || converted < top) converted = top;
    converted_image = image;
    for (; converted < top + g.kernel_h; ++converted) {
      Convert(p, image, converted - g.pad_top, ring + (converted % l.slots) * l.line_elements);
    }
    l.first = top % l.slots;
    for (int32_t ox = begin; ox < end; ox += kEpilogueRows) {
      const int32_t count = end - ox < kEpilogueRows ? end - ox : kEpilogueRows;
      const uint8_t* w = static_cast<const uint8_t*>(p->weights) + sizeof(conv::PackedQ8Header);
      for (int32_t channel = 0; channel < g.out_c; channel += kChannelBlock, w += block_bytes) {
        const int32_t n = g.out_c - channel < kChannelBlock ? g.out_c - channel : kChannelBlock;
        if (wide) {
          Pixels<0, int16_t>(l, ox, w, count, acc);
        } else if (l.pairs == 5) {
          Pixels<5, int8_t>(l, ox, w, count, acc);
        } else {
          Pixels<0, int8_t>(l, ox, w, count, acc);
        }
        conv::Finish(p, acc, row + ox - begin, count, channel, n);
      }
    }
    row += end - begin;
  }
}

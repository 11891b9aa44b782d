#pragma once
// Gathers the inputs under each window into rows of a panel: im2col, for as many rows as fit a
// cache. Vector code, freestanding; only vector kernels include it.
#include "base/simd.h"
#include "kernels/conv/blocking.h"
#include "kernels/conv/kernel.h"

namespace requant::conv {

// Copies of n values end with a whole vector that overlaps the one before, where n allows: nothing
// is read or written outside of the n values, and short runs (9 bytes of an RGB image) need no loop
// over single values.

/// The address `elements` behind `in`: half as many bytes where an Op says kPacked (two elements to
/// a byte).
template <typename Op>
RQ_INLINE const typename Op::In* At(const typename Op::In* in, ptrdiff_t elements) {
  if constexpr (requires { Op::kPacked; }) return in + elements / 2;
  return in + elements;
}

/// Copies floats; padding is 0.
struct CopyF32 {
  using In = float;
  using Out = float;
  RQ_MEMBER void Copy(const float* in, int32_t n, float* out) const {
    if (n < 4) {
      simd::StorePartial(out, simd::LoadPartial(in, n), n);
      return;
    }
    for (int32_t i = 0; i + 4 <= n; i += 4) wasm_v128_store(out + i, wasm_v128_load(in + i));
    if (n & 3) wasm_v128_store(out + n - 4, wasm_v128_load(in + n - 4));
  }
  RQ_MEMBER void Fill(int32_t n, float* out) const {
    const v128_t zero = wasm_f32x4_splat(0.0f);
    if (n < 4) {
      simd::StorePartial(out, zero, n);
      return;
    }
    for (int32_t i = 0; i + 4 <= n; i += 4) wasm_v128_store(out + i, zero);
    if (n & 3) wasm_v128_store(out + n - 4, zero);
  }
};

/// Turns 8 bits into int16 and subtracts the zero point; padding is 0, which is the zero point. One
/// code serves both types: a signed byte with its top bit flipped is an unsigned one that is 128
/// higher.
struct WidenQ8 {
  using In = uint8_t;
  using Out = int16_t;
  int32_t zero_point;  ///< of the flipped bytes
  int32_t flip;        ///< 0x80 for int8, 0 for uint8

  RQ_MEMBER v128_t Eight(const uint8_t* in) const {
    const v128_t bytes =
        wasm_v128_xor(wasm_u16x8_load8x8(in), wasm_i16x8_splat(static_cast<int16_t>(flip)));
    return wasm_i16x8_sub(bytes, wasm_i16x8_splat(static_cast<int16_t>(zero_point)));
  }
  RQ_MEMBER void Copy(const uint8_t* in, int32_t n, int16_t* out) const {
    if (n < 8) {
      for (int32_t i = 0; i < n; ++i) out[i] = static_cast<int16_t>((in[i] ^ flip) - zero_point);
      return;
    }
    for (int32_t i = 0; i + 8 <= n; i += 8) wasm_v128_store(out + i, Eight(in + i));
    if (n & 7) wasm_v128_store(out + n - 8, Eight(in + n - 8));
  }
  RQ_MEMBER void Fill(int32_t n, int16_t* out) const {
    if (n < 8) {
      for (int32_t i = 0; i < n; ++i) out[i] = 0;
      return;
    }
    const v128_t zero = wasm_i16x8_splat(0);
    for (int32_t i = 0; i + 8 <= n; i += 8) wasm_v128_store(out + i, zero);
    if (n & 7) wasm_v128_store(out + n - 8, zero);
  }
};

RQ_INLINE WidenQ8 WidenOf(const ConvQ8Params* p) {
  const int32_t flip = p->input_signed ? 128 : 0;
  return {p->input_zero_point + flip, flip};
}

/// Copies bytes and adds `add` modulo 256; padding is zero_point, which includes `add`.
struct AddBytes {
  using In = uint8_t;
  using Out = uint8_t;
  int32_t zero_point;
  int32_t add;

  RQ_MEMBER void Copy(const uint8_t* in, int32_t n, uint8_t* out) const {
    if (n < 16) {
      for (int32_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(in[i] + add);
      return;
    }
    const v128_t adds = wasm_i8x16_splat(static_cast<int8_t>(add));
    for (int32_t i = 0; i + 16 <= n; i += 16) {
      wasm_v128_store(out + i, wasm_i8x16_add(wasm_v128_load(in + i), adds));
    }
    if (n & 15) {
      wasm_v128_store(out + n - 16, wasm_i8x16_add(wasm_v128_load(in + n - 16), adds));
    }
  }
  RQ_MEMBER void Fill(int32_t n, uint8_t* out) const {
    if (n < 16) {
      for (int32_t i = 0; i < n; ++i) out[i] = static_cast<uint8_t>(zero_point);
      return;
    }
    const v128_t zero = wasm_i8x16_splat(static_cast<int8_t>(zero_point));
    for (int32_t i = 0; i + 16 <= n; i += 16) wasm_v128_store(out + i, zero);
    if (n & 15) wasm_v128_store(out + n - 16, zero);
  }
};

/// Gathers the inputs of output rows [row, row + count), channels from first_channel of one group,
/// to panel[r * panel_stride + (ky * kernel_w + kx) * group channels + c].
template <typename Op>
RQ_INLINE void GatherRows(const ConvGeometry& g, const typename Op::In* input,
                          int32_t first_channel, int32_t row, int32_t count, const Op& op,
                          typename Op::Out* panel, ptrdiff_t panel_stride) {
  const int32_t channels = g.in_c / g.groups;
  if (IsPointwise(g) && channels == g.input_stride && panel_stride == channels) {
    op.Copy(At<Op>(input, static_cast<ptrdiff_t>(row) * channels), count * channels, panel);
    return;
  }
  // Taps that are neighbors in memory are copied as one run.
  const bool dense = channels == g.input_stride && g.dilation_w == 1;
  int32_t ox = row % g.out_w;
  int32_t oy = (row / g.out_w) % g.out_h;
  int32_t image = row / (g.out_w * g.out_h);
  for (int32_t r = 0; r < count; ++r, panel += panel_stride) {
    const int32_t x0 = ox * g.stride_w - g.pad_left;
    // Taps kx in [first, last) lie inside the image.
    int32_t first = 0, last = g.kernel_w;
    if (x0 < 0) first = (-x0 + g.dilation_w - 1) / g.dilation_w;
    if (x0 + (g.kernel_w - 1) * g.dilation_w >= g.in_w) {
      last = g.in_w > x0 ? (g.in_w - x0 + g.dilation_w - 1) / g.dilation_w : 0;
    }
    if (first > g.kernel_w) first = g.kernel_w;
    if (last < first) last = first;
    typename Op::Out* out = panel;
    for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
      const int32_t y = oy * g.stride_h - g.pad_top + ky * g.dilation_h;
      if (y < 0 || y >= g.in_h) {
        op.Fill(g.kernel_w * channels, out);
        out += g.kernel_w * channels;
        continue;
      }
      if (first > 0) {
        op.Fill(first * channels, out);
        out += first * channels;
      }
      const ptrdiff_t pixel = (image * g.in_h + y) * g.in_w + x0 + first * g.dilation_w;
      const typename Op::In* in = At<Op>(input, pixel * g.input_stride + first_channel);
      if (dense && last > first) {
        op.Copy(in, (last - first) * channels, out);
        out += (last - first) * channels;
      } else {
        const ptrdiff_t step = static_cast<ptrdiff_t>(g.dilation_w) * g.input_stride;
        for (int32_t kx = first; kx < last; ++kx, in = At<Op>(in, step), out += channels) {
          op.Copy(in, channels, out);
        }
      }
      if (last < g.kernel_w) {
        op.Fill((g.kernel_w - last) * channels, out);
        out += (g.kernel_w - last) * channels;
      }
    }
    // Where the depth is no multiple of the step, the last step is filled up with padding.
    const ptrdiff_t rest = panel_stride - (out - panel);
    if (rest > 0) op.Fill(static_cast<int32_t>(rest), out);
    if (++ox == g.out_w) {
      ox = 0;
      if (++oy == g.out_h) {
        oy = 0;
        ++image;
      }
    }
  }
}

/// Copies line y of an image with its padding, PaddedWidth pixels; a line outside is padding only.
template <typename Op>
RQ_INLINE void PadLine(const ConvGeometry& g, const typename Op::In* input, int32_t image,
                       int32_t y, const Op& op, typename Op::Out* out) {
  const int32_t width = PaddedWidth(g);
  if (y < 0 || y >= g.in_h) {
    op.Fill(width * g.in_c, out);
    return;
  }
  const int32_t first = g.pad_left < width ? g.pad_left : width;
  const int32_t last = g.pad_left + g.in_w < width ? g.pad_left + g.in_w : width;
  if (first > 0) op.Fill(first * g.in_c, out);
  const typename Op::In* in =
      input + static_cast<ptrdiff_t>((image * g.in_h + y) * g.in_w) * g.input_stride;
  out += first * g.in_c;
  if (g.input_stride == g.in_c) {
    if (last > first) op.Copy(in, (last - first) * g.in_c, out);
    out += (last - first) * g.in_c;
  } else {
    for (int32_t x = first; x < last; ++x, in += g.input_stride, out += g.in_c) {
      op.Copy(in, g.in_c, out);
    }
  }
  if (last < width) op.Fill((width - last) * g.in_c, out);
}

}  // namespace requant::conv

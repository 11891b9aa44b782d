// Kernels that read and write tensors of bit planes (planes.h).
#include "base/simd.h"
#include "kernels/bitserial/planes.h"
#include "kernels/conv/blocking.h"
#include "kernels/lut/kernel.h"
#include "kernels/requantize/kernel.h"

namespace requant {
namespace {

/// Copies `bytes` bytes, a multiple of 4.
RQ_INLINE void CopyWords(const uint8_t* in, int32_t bytes, uint8_t* out) {
  int32_t i = 0;
  for (; i + 16 <= bytes; i += 16) wasm_v128_store(out + i, wasm_v128_load(in + i));
  for (; i < bytes; i += 4) __builtin_memcpy(out + i, in + i, 4);
}

RQ_INLINE void FillWords(uint32_t word, int32_t bytes, uint8_t* out) {
  for (int32_t i = 0; i < bytes; i += 4) __builtin_memcpy(out + i, &word, 4);
}

}  // namespace
}  // namespace requant

int32_t rq_conv_gather_planes(const requant::ConvQ8Params* p, int32_t first_channel, int32_t row,
                              int32_t zero, uint8_t* bits) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t planes = p->input_planes, spread = p->input_spread, channels = g.in_c / g.groups;
  const int32_t run = channels / 8, plane_bytes = g.in_c / 8;
  const int32_t row_bytes = g.kernel_h * g.kernel_w * run;
  const int32_t line = row / g.out_w, image = line / g.out_h;
  const int32_t top = (line - image * g.out_h) * g.stride_h - g.pad_top;
  const int32_t left = (row - line * g.out_w) * g.stride_w - g.pad_left;
  uint8_t* out = bits;
  for (int32_t ky = 0; ky < g.kernel_h; ++ky) {
    const int32_t y = top + ky * g.dilation_h;
    for (int32_t kx = 0; kx < g.kernel_w; ++kx, out += run) {
      const int32_t x = left + kx * g.dilation_w;
      const bool inside = y >= 0 && y < g.in_h && x >= 0 && x < g.in_w;
      const ptrdiff_t pixel = (image * g.in_h + y) * g.in_w + x;
      const uint8_t* in =
          static_cast<const uint8_t*>(p->input) + pixel * planes * plane_bytes + first_channel / 8;
      for (int32_t plane = 0; plane < planes + spread; ++plane) {
        uint8_t* to = out + plane * row_bytes;
        if (inside && plane >= spread) {
          CopyWords(in + (plane - spread) * plane_bytes, run, to);
        } else {
          FillWords(!inside && (zero >> plane & 1) != 0 ? ~0u : 0u, run, to);
        }
      }
    }
  }
  int32_t sum = 0;
  for (int32_t plane = 0; plane < planes + spread; ++plane) {
    int32_t ones = 0;
    for (int32_t i = 0; i < row_bytes; i += 4, bits += 4) {
      uint32_t word;
      __builtin_memcpy(&word, bits, 4);
      ones += __builtin_popcount(word);
    }
    sum += ones << plane;
  }
  return sum;
}

void rq_conv_finish_planes(const requant::ConvQ8Params* p, int32_t* acc, int32_t row, int32_t count,
                           int32_t channel) {
  using namespace requant;
  // The bytes overwrite the accumulators: none is written before it is read.
  uint8_t* bytes = reinterpret_cast<uint8_t*>(acc);
  rq_requantize_rows(acc, conv::kChannelBlock, count, channel, conv::kChannelBlock, &p->requantize,
                     bytes, conv::kChannelBlock, p->output_type == ConvQ8Output::kInt8);
  const int32_t planes = p->output_planes;
  const ptrdiff_t plane_bytes = p->geometry.out_c / 8, pixel = planes * plane_bytes;
  uint8_t* out = static_cast<uint8_t*>(p->output) + row * pixel + channel / 8;
  const v128_t base = wasm_i8x16_splat(static_cast<int8_t>(p->requantize.lo));
  // Splits two rows at a time. Reading past the last row is allowed, since the accumulators are
  // longer than the bytes.
  for (int32_t r = 0; r < count; r += 2, bytes += 16, out += 2 * pixel) {
    // A bitmask takes the top bits, so the highest plane comes first.
    v128_t x = wasm_i8x16_shl(wasm_i8x16_sub(wasm_v128_load(bytes), base),
                              static_cast<uint32_t>(8 - planes));
    for (int32_t plane = planes - 1; plane >= 0; --plane) {
      const uint32_t mask = wasm_i8x16_bitmask(x);
      out[plane * plane_bytes] = static_cast<uint8_t>(mask);
      if (r + 1 < count) out[pixel + plane * plane_bytes] = static_cast<uint8_t>(mask >> 8);
      x = wasm_i8x16_add(x, x);
    }
  }
}

void rq_lut_bits(const requant::LutBitsParams* p) {
  // Comparisons are of signed bytes.
  const int32_t top = p->is_signed != 0 ? 0 : 128;
  const v128_t flip = wasm_i8x16_splat(static_cast<int8_t>(top));
  const v128_t threshold = wasm_i8x16_splat(static_cast<int8_t>(p->threshold - top));
  const uint32_t flips = p->flips != 0 ? ~0U : 0;
  const uint8_t* in = p->in;
  uint8_t* out = p->out;
  for (size_t i = 0; i < p->words; ++i, in += 32, out += 4) {
    const v128_t a = wasm_v128_xor(wasm_v128_load(in), flip);
    const v128_t b = wasm_v128_xor(wasm_v128_load(in + 16), flip);
    const uint32_t low = wasm_i8x16_bitmask(wasm_i8x16_ge(a, threshold));
    const uint32_t high = wasm_i8x16_bitmask(wasm_i8x16_ge(b, threshold));
    const uint32_t word = (low | high << 16) ^ flips;
    __builtin_memcpy(out, &word, 4);
  }
}

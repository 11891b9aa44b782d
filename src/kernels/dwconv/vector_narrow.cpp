// Depthwise convolution of few bits, for relaxed SIMD. It multiplies vertical pairs of taps as
// vector_q8.cpp does, but of bytes, eight channels to a vector, and adds them in int16.
//
// i16x8.relaxed_dot_i8x16_i7x16 multiplies signed bytes, the weights, by bytes in [0, 127], the
// inputs plus `input_add`, and adds neighbors. With padding as the zero point z', which includes
// input_add, sum((x' - z') * w) = sum(x' * w) - z' * sum(w). The sum of all taps has to fit int16,
// which pack_narrow.cpp checks; additions on the way may wrap.
#include "kernels/bitserial/nibbles_simd.h"
#include "kernels/bytes_simd.h"
#include "kernels/dot8.h"
#include "kernels/dwconv/ring.h"

namespace requant {
namespace {

using bitserial::PackCodes;
using bitserial::UnpackLow;

/// Brings the bytes of two rows into the ring.
struct Pairing {
  v128_t add, zero;
  v128_t has_a, has_b;  ///< all ones if the row is inside the image; else padding replaces it

  /// Stores sixteen channels as bytes a0 b0 a1 b1 ...
  RQ_MEMBER void Store(v128_t a, v128_t b, uint8_t* out) const {
    StoreLow(a, b, out);
    wasm_v128_store(out + 16, simd::InterleaveHighI8(A(a), B(b)));
  }
  /// Stores the first eight channels as bytes a0 b0 a1 b1 ...
  RQ_MEMBER void StoreLow(v128_t a, v128_t b, uint8_t* out) const {
    wasm_v128_store(out, simd::InterleaveLowI8(A(a), B(b)));
  }
  RQ_MEMBER v128_t A(v128_t a) const {
    return wasm_v128_bitselect(wasm_i8x16_add(a, add), zero, has_a);
  }
  RQ_MEMBER v128_t B(v128_t b) const {
    return wasm_v128_bitselect(wasm_i8x16_add(b, add), zero, has_b);
  }
};

/// Pairs n channels of a pixel, a byte each.
RQ_INLINE void PairBytes(const uint8_t* a, const uint8_t* b, int32_t n, const Pairing& pairing,
                         uint8_t* out) {
  int32_t c = 0;
  for (; c + 16 <= n; c += 16) {
    pairing.Store(wasm_v128_load(a + c), wasm_v128_load(b + c), out + 2 * c);
  }
  if (c < n && n >= 16) {
    pairing.Store(wasm_v128_load(a + n - 16), wasm_v128_load(b + n - 16), out + 2 * (n - 16));
    return;
  }
  for (; c < n; c += 8) {
    const auto rest = static_cast<size_t>(n - c);
    pairing.StoreLow(simd::LoadPartialBytes(a + c, rest), simd::LoadPartialBytes(b + c, rest),
                     out + 2 * c);
  }
}

/// Pairs n channels of a pixel, a multiple of 8, stored two to a byte (bitserial/nibbles.h).
RQ_INLINE void PairNibbles(const uint8_t* a, const uint8_t* b, int32_t n, const Pairing& pairing,
                           uint8_t* out) {
  for (; n >= 16; n -= 16, a += 8, b += 8, out += 32) {
    pairing.Store(UnpackLow(wasm_v128_load64_zero(a)), UnpackLow(wasm_v128_load64_zero(b)), out);
  }
  if (n > 0) {
    pairing.StoreLow(UnpackLow(wasm_v128_load32_zero(a)), UnpackLow(wasm_v128_load32_zero(b)), out);
  }
}

/// Pairs input rows row_a and row_b, channels [channel, channel + n), to `out`: for every padded
/// column `group` channels, each with a byte of either row.
template <bool kPacked>
__attribute__((noinline)) void ConvertBytes(const DwConvQ8Params* p, int32_t image, int32_t row_a,
                                            int32_t row_b, int32_t channel, int32_t n,
                                            int32_t group, int32_t add, uint8_t* out) {
  const ConvGeometry& g = p->geometry;
  const int32_t width = dwconv::PaddedWidth(g), zero_point = p->input_zero_point + add;
  const ptrdiff_t column = 2 * static_cast<ptrdiff_t>(group);
  const auto bytes = [](ptrdiff_t elements) {
    return kPacked ? bitserial::NibbleBytes(elements) : elements;
  };
  const ptrdiff_t pixel = bytes(g.input_stride), line = g.in_w * pixel;
  const bool has_a = row_a >= 0 && row_a < g.in_h, has_b = row_b >= 0 && row_b < g.in_h;
  int32_t first = g.pad_left < width ? g.pad_left : width;
  int32_t last = g.pad_left + g.in_w < width ? g.pad_left + g.in_w : width;
  if (!has_a && !has_b) first = last = width;
  const v128_t zero = wasm_i8x16_splat(static_cast<int8_t>(zero_point));
  for (ptrdiff_t i = 0; i < first * column; i += 16) wasm_v128_store(out + i, zero);
  for (ptrdiff_t i = last * column; i < width * column; i += 16) wasm_v128_store(out + i, zero);
  if (first >= last) return;

  // A row outside the image reads the other row instead and is masked out.
  const Pairing pairing = {
      wasm_i8x16_splat(static_cast<int8_t>(kPacked ? p->input_base + add : add)), zero,
      wasm_i8x16_splat(has_a ? -1 : 0), wasm_i8x16_splat(has_b ? -1 : 0)};
  const uint8_t* from =
      static_cast<const uint8_t*>(p->input) + image * g.in_h * line + bytes(channel);
  const uint8_t* in_a = from + (has_a ? row_a : row_b) * line;
  const uint8_t* in_b = from + (has_b ? row_b : row_a) * line;
  out += first * column;
  for (int32_t x = first; x < last; ++x, in_a += pixel, in_b += pixel, out += column) {
    if (kPacked) {
      PairNibbles(in_a, in_b, n, pairing, out);
    } else {
      PairBytes(in_a, in_b, n, pairing, out);
    }
  }
}

RQ_INLINE v128_t Dot(v128_t acc, const uint8_t* x, v128_t w) {
  return wasm_i16x8_add(acc, simd::DotI8I7(w, wasm_v128_load(x)));
}

/// Stores the accumulators of eight channels: their bases plus the sums of products.
RQ_INLINE void StoreEight(v128_t sum, v128_t base0, v128_t base1, int32_t* acc) {
  wasm_v128_store(acc, wasm_i32x4_add(base0, wasm_i32x4_extend_low_i16x8(sum)));
  wasm_v128_store(acc + 4, wasm_i32x4_add(base1, wasm_i32x4_extend_high_i16x8(sum)));
}

/// Multiplies `count` pixels of eight channels under a 3x3 window without horizontal dilation,
/// which is two pairs of rows.
template <int kStride>
__attribute__((noinline)) void Octet3x3(const uint8_t* row0, const uint8_t* row1, ptrdiff_t column,
                                        const uint8_t* block, int32_t zero_point,
                                        const uint8_t* weights, int32_t count, int32_t* acc,
                                        int32_t acc_stride) {
  v128_t w0[3], w1[3];
  RQ_UNROLL for (int i = 0; i < 3; ++i) {
    w0[i] = wasm_v128_load(weights + i * 16);
    w1[i] = wasm_v128_load(weights + (3 + i) * 16);
  }
  const int32_t* header = reinterpret_cast<const int32_t*>(block);
  const v128_t base0 = simd::LoadBase(header, zero_point);
  const v128_t base1 = simd::LoadBase(header + 4, zero_point);
  int32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    v128_t sum[4];
    RQ_UNROLL for (int j = 0; j < 4; ++j) sum[j] = wasm_i16x8_splat(0);
    RQ_UNROLL for (int c = 0; c < 3 * kStride + 3; ++c) {
      const v128_t x0 = wasm_v128_load(row0), x1 = wasm_v128_load(row1);
      row0 += column;
      row1 += column;
      RQ_UNROLL for (int j = 0; j < 4; ++j) {
        const int kx = c - j * kStride;
        if (kx >= 0 && kx < 3) {
          sum[j] = wasm_i16x8_add(sum[j], simd::DotI8I7(w0[kx], x0));
          sum[j] = wasm_i16x8_add(sum[j], simd::DotI8I7(w1[kx], x1));
        }
      }
    }
    row0 -= (3 - kStride) * column;
    row1 -= (3 - kStride) * column;
    RQ_UNROLL for (int j = 0; j < 4; ++j) StoreEight(sum[j], base0, base1, acc + j * acc_stride);
    acc += 4 * acc_stride;
  }
  for (; i < count; ++i) {
    v128_t sum = wasm_i16x8_splat(0);
    RQ_UNROLL for (int kx = 0; kx < 3; ++kx) {
      sum = Dot(sum, row0 + kx * column, w0[kx]);
      sum = Dot(sum, row1 + kx * column, w1[kx]);
    }
    StoreEight(sum, base0, base1, acc);
    row0 += kStride * column;
    row1 += kStride * column;
    acc += acc_stride;
  }
}

/// Multiplies `count` pixels of eight channels under any window. Its pairs of rows lie in a ring of
/// `slots`, from first_slot on.
__attribute__((noinline)) void OctetAny(const uint8_t* ring, ptrdiff_t slot_bytes, int32_t slots,
                                        int32_t first_slot, int32_t pairs, int32_t kernel_w,
                                        ptrdiff_t tap, ptrdiff_t next, const uint8_t* block,
                                        int32_t zero_point, const uint8_t* weights, int32_t count,
                                        int32_t* acc, int32_t acc_stride) {
  const int32_t* header = reinterpret_cast<const int32_t*>(block);
  const v128_t base0 = simd::LoadBase(header, zero_point);
  const v128_t base1 = simd::LoadBase(header + 4, zero_point);
  for (int32_t i = 0; i < count; i += 2, ring += 2 * next, acc += 2 * acc_stride) {
    // The last pixel of an odd count is computed twice.
    const ptrdiff_t other = i + 1 < count ? next : 0;
    v128_t sum0 = wasm_i16x8_splat(0), sum1 = sum0;
    const uint8_t* w = weights;
    int32_t slot = first_slot;
    for (int32_t q = 0; q < pairs; ++q) {
      const uint8_t* x = ring + slot * slot_bytes;
      for (int32_t kx = 0; kx < kernel_w; ++kx, w += 16, x += tap) {
        const v128_t weight = wasm_v128_load(w);
        sum0 = Dot(sum0, x, weight);
        sum1 = Dot(sum1, x + other, weight);
      }
      if (++slot == slots) slot = 0;
    }
    StoreEight(sum0, base0, base1, acc);
    if (other != 0) StoreEight(sum1, base0, base1, acc + acc_stride);
  }
}

RQ_INLINE void Strip(const DwConvQ8Params* p, const uint8_t* ring, ptrdiff_t slot_bytes,
                     int32_t first_slot, int32_t odd, int32_t group, int32_t n,
                     const uint8_t* block, int32_t zero_point, int32_t ox, int32_t count,
                     int32_t* acc) {
  const ConvGeometry& g = p->geometry;
  const int32_t slots = dwconv::OddPairs(g.kernel_h), even_pairs = dwconv::EvenPairs(g.kernel_h);
  const int32_t pairs = odd ? slots : even_pairs;
  const int32_t octet_bytes = dwconv::NarrowOctetBytes(g.kernel_h, g.kernel_w);
  const ptrdiff_t at = 64 + (odd ? even_pairs * g.kernel_w * 16 : 0);
  const ptrdiff_t column = 2 * static_cast<ptrdiff_t>(group);
  const bool small = pairs == 2 && g.kernel_w == 3 && g.dilation_w == 1;
  const uint8_t* in = ring + ox * g.stride_w * column;
  const int32_t second_slot = first_slot + 1 == slots ? 0 : first_slot + 1;
  for (int32_t c = 0; c < n; c += 8, block += octet_bytes, in += 16, acc += 8) {
    const uint8_t* weights = block + at;
    if (small && g.stride_w == 1) {
      Octet3x3<1>(in + first_slot * slot_bytes, in + second_slot * slot_bytes, column, block,
                  zero_point, weights, count, acc, group);
    } else if (small && g.stride_w == 2) {
      Octet3x3<2>(in + first_slot * slot_bytes, in + second_slot * slot_bytes, column, block,
                  zero_point, weights, count, acc, group);
    } else {
      OctetAny(in, slot_bytes, slots, first_slot, pairs, g.kernel_w, g.dilation_w * column,
               g.stride_w * column, block, zero_point, weights, count, acc, group);
    }
  }
}

/// Writes the output two codes to a byte, by way of `codes`, which has a byte for each accumulator.
RQ_INLINE void FinishNibbles(const DwConvQ8Params* p, const dwconv::Results& r, uint8_t* codes) {
  rq_requantize_rows(r.acc, r.group, r.count, r.c, r.n, &p->requantize, codes, r.group,
                     p->output_signed);
  const v128_t base = wasm_i8x16_splat(static_cast<int8_t>(p->requantize.lo));
  const ptrdiff_t step = bitserial::NibbleBytes(p->geometry.output_stride);
  uint8_t* out = static_cast<uint8_t*>(p->output) + r.pixel * step + bitserial::NibbleBytes(r.c);
  for (int32_t i = 0; i < r.count; ++i, codes += r.group, out += step) {
    PackCodes(codes, r.n, base, out);
  }
}

/// Writes an output of two codes as bits, by comparing accumulators (can_compare.h).
RQ_INLINE void FinishBits(const DwConvQ8Params* p, const dwconv::Results& r) {
  const int32_t *last_low = p->requantize.narrow.last_low + r.c, *acc = r.acc;
  const ptrdiff_t step = p->geometry.output_stride / 8;
  uint8_t* out = static_cast<uint8_t*>(p->output) + r.pixel * step + r.c / 8;
  for (int32_t i = 0; i < r.count; ++i, acc += r.group, out += step) {
    for (int32_t c = 0; c < r.n; c += 16) {
      const auto four = [&](int32_t at) __attribute__((always_inline)) {
        return wasm_i32x4_gt(wasm_v128_load(acc + c + at), wasm_v128_load(last_low + c + at));
      };
      // The loads may reach past the last eight channels: last_low has padding there.
      const uint32_t bits = wasm_i8x16_bitmask(wasm_i8x16_narrow_i16x8(
          wasm_i16x8_narrow_i32x4(four(0), four(4)), wasm_i16x8_narrow_i32x4(four(8), four(12))));
      out[c / 8] = static_cast<uint8_t>(bits);
      if (c + 8 < r.n) out[c / 8 + 1] = static_cast<uint8_t>(bits >> 8);
    }
  }
}

}  // namespace
}  // namespace requant

void rq_dwconv_q8_narrow(const requant::DwConvQ8Params* p) {
  using namespace requant;
  const ConvGeometry& g = p->geometry;
  const int32_t slots = dwconv::OddPairs(g.kernel_h);
  const int32_t group = dwconv::ChannelGroup(g, slots);
  const ptrdiff_t slot_bytes = static_cast<ptrdiff_t>(dwconv::PaddedWidth(g)) * group * 2;
  const auto* header = static_cast<const dwconv::NarrowHeader*>(p->weights);
  const uint8_t* blocks = reinterpret_cast<const uint8_t*>(header + 1);
  const int32_t add = header->input_add;
  const ptrdiff_t octet_bytes = dwconv::NarrowOctetBytes(g.kernel_h, g.kernel_w);
  int32_t* acc = static_cast<int32_t*>(p->workspace);
  uint8_t* codes = reinterpret_cast<uint8_t*>(acc + dwconv::kStripElements);
  uint8_t* ring = codes + dwconv::kStripElements;
  dwconv::WalkRing<2>(
      p, group, slots, acc,
      [=](int32_t image, int32_t row, int32_t step, int32_t channel, int32_t n, int32_t slot)
          __attribute__((always_inline)) {
            uint8_t* to = ring + slot * slot_bytes;
            if (p->input_packed != 0) {
              ConvertBytes<true>(p, image, row, row + step, channel, n, group, add, to);
            } else {
              ConvertBytes<false>(p, image, row, row + step, channel, n, group, add, to);
            }
          },
      [=](int32_t channel, int32_t n, int32_t slot, int32_t odd, int32_t ox, int32_t count)
          __attribute__((always_inline)) {
            Strip(p, ring, slot_bytes, slot, odd, group, n, blocks + channel / 8 * octet_bytes,
                  p->input_zero_point + add, ox, count, acc);
          },
      [=](const dwconv::Results& results) __attribute__((always_inline)) {
        if (p->output_packed != 0) {
          FinishNibbles(p, results, codes);
        } else if (p->output_planes != 0) {
          FinishBits(p, results);
        } else {
          dwconv::FinishBytes(p, results);
        }
      });
}

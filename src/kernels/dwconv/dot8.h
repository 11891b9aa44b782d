#pragma once
// 8-bit depthwise convolution for machines with exact dot products of bytes: the template behind
// vector_dot8.cpp. Freestanding.
//
// The kernel works as vector_q8.cpp does, on quartets of rows instead of pairs. Input rows 4q to 4q
// + 3, counted from the top padding, are interleaved once to [padded column][channel][4 rows], in
// the type that the instruction takes (kernels/dot8.h), with all padding written out as the zero
// point. A dot product then takes up to four rows of a column for four channels. A window of height
// 3 lies in one quartet if it begins on the first or second row, else in two; weights are packed
// for all four phases, with zeros outside of the window:
//
//   input row   4q   4q+1 4q+2 4q+3 | 4q+4 4q+5 4q+6 4q+7
//   phase 0     w0   w1   w2   0    |
//   phase 1     0    w0   w1   w2   |
//   phase 2     0    0    w0   w1   | w2   0    0    0
//   phase 3     0    0    0    w0   | w1   w2   0    0
//
// This takes two thirds of the pairs' multiplications, half of their bytes, and no widening.
//
// Affine weights need nine bits. They are packed less the middle m of their channel's range, which
// leaves eight, while the sum of weights that is packed with them is that of the weights
// themselves. So the kernel adds m * sum(x'), where a product with ones gives the sum of a column,
// which neighboring windows share. Blocks whose middles are all 0 skip this.
#include "kernels/dot8.h"
#include "kernels/dwconv/blocking.h"
#include "kernels/dwconv/kernel.h"
#include "kernels/dwconv/ring.h"

namespace requant::dwconv {

/// Four rows of one image, and which of them lie inside it.
struct Rows4 {
  const uint8_t* at[4];
  bool has[4];
};

/// Interleaves n channels of each column, eight at a time; the last eight overlap those before.
RQ_INLINE void InterleaveColumns(const Rows4& rows, int32_t columns, ptrdiff_t in_step, int32_t n,
                                 uint8_t flip, uint8_t zero, uint8_t* out, ptrdiff_t out_step) {
  const uint8_t* in0 = rows.at[0];
  const uint8_t* in1 = rows.at[1];
  const uint8_t* in2 = rows.at[2];
  const uint8_t* in3 = rows.at[3];
  const v128_t flips = wasm_i8x16_splat(static_cast<int8_t>(flip));
  const v128_t fill = wasm_i8x16_splat(static_cast<int8_t>(zero));
  // In every 32-bit lane, the bytes of rows inside the image.
  const v128_t mask = wasm_i32x4_splat((rows.has[0] ? 0xFF : 0) | (rows.has[1] ? 0xFF00 : 0) |
                                       (rows.has[2] ? 0xFF0000 : 0) |
                                       (rows.has[3] ? static_cast<int32_t>(0xFF000000u) : 0));
  for (; columns > 0; --columns) {
    for (int32_t c = 0; c < n;) {
      if (n >= 8) {
        if (c + 8 > n) c = n - 8;
        const v128_t a = wasm_v128_load64_zero(in0 + c), b = wasm_v128_load64_zero(in1 + c);
        const v128_t d = wasm_v128_load64_zero(in2 + c), e = wasm_v128_load64_zero(in3 + c);
        const v128_t ab = simd::InterleaveLowI8(a, b);
        const v128_t de = simd::InterleaveLowI8(d, e);
        const v128_t low =
            wasm_v128_xor(wasm_i16x8_shuffle(ab, de, 0, 8, 1, 9, 2, 10, 3, 11), flips);
        const v128_t high =
            wasm_v128_xor(wasm_i16x8_shuffle(ab, de, 4, 12, 5, 13, 6, 14, 7, 15), flips);
        wasm_v128_store(out + 4 * c, wasm_v128_bitselect(low, fill, mask));
        wasm_v128_store(out + 4 * c + 16, wasm_v128_bitselect(high, fill, mask));
        c += 8;
      } else {
        uint8_t* to = out + 4 * c;
        to[0] = rows.has[0] ? in0[c] ^ flip : zero;
        to[1] = rows.has[1] ? in1[c] ^ flip : zero;
        to[2] = rows.has[2] ? in2[c] ^ flip : zero;
        to[3] = rows.has[3] ? in3[c] ^ flip : zero;
        ++c;
      }
    }
    in0 += in_step, in1 += in_step, in2 += in_step, in3 += in_step, out += out_step;
  }
}

/// Interleaves rows y, y + step, y + 2 step and y + 3 step, channels [channel, channel + n), to
/// `out`, `group` channels per column. A row outside the image is padding.
[[maybe_unused]] static __attribute__((noinline)) void Interleave(
    const DwConvQ8Params* p, int32_t image, int32_t y, int32_t step, int32_t channel, int32_t n,
    int32_t group, int32_t flip, int32_t zero_point, uint8_t* out) {
  const ConvGeometry& g = p->geometry;
  const int32_t width = PaddedWidth(g);
  const ptrdiff_t column = 4 * static_cast<ptrdiff_t>(group);
  const uint8_t* first_row = static_cast<const uint8_t*>(p->input) + channel +
                             static_cast<ptrdiff_t>(image) * g.in_h * g.in_w * g.input_stride;
  const ptrdiff_t line = static_cast<ptrdiff_t>(g.in_w) * g.input_stride;
  Rows4 rows;
  int32_t there = 0;
  RQ_UNROLL for (int i = 0; i < 4; ++i) {
    const int32_t row = y + i * step;
    rows.has[i] = row >= 0 && row < g.in_h;
    there += rows.has[i];
    // A row outside the image reads the image's first row instead and is masked out.
    rows.at[i] = first_row + (rows.has[i] ? row : 0) * line;
  }
  const uint8_t zero = static_cast<uint8_t>(zero_point);
  int32_t first = g.pad_left < width ? g.pad_left : width;
  int32_t last = g.pad_left + g.in_w < width ? g.pad_left + g.in_w : width;
  if (there == 0) first = last = width;
  const v128_t fill = wasm_i8x16_splat(static_cast<int8_t>(zero));
  for (ptrdiff_t i = 0; i < first * column; i += 16) wasm_v128_store(out + i, fill);
  for (ptrdiff_t i = last * column; i < width * column; i += 16) wasm_v128_store(out + i, fill);
  if (first >= last) return;
  out += first * column;
  InterleaveColumns(rows, last - first, g.input_stride, n, flip ? 0x80 : 0, zero, out, column);
}

/// Multiplies `count` pixels of eight channels under a window of width three, with the weights in
/// registers. A window of one quartet computes all eight channels at once, a window of two four and
/// four, since twice the weights would spill. row0 and row1 are the quartets; `tap` and `next` are
/// the bytes from tap to tap and from pixel to pixel.
template <typename Dot8, int kQuartets>
static __attribute__((noinline)) void Window3(const uint8_t* row0, const uint8_t* row1,
                                              ptrdiff_t tap, ptrdiff_t next, const int32_t* block,
                                              int32_t zero_point, const int8_t* w, int32_t count,
                                              int32_t* acc, int32_t acc_stride) {
  constexpr int kVectors = 2 / kQuartets;
  for (int part = 0; part < kQuartets; ++part) {
    v128_t weight[6], base[kVectors];
    RQ_UNROLL for (int v = 0; v < kVectors; ++v) base[v] =
        simd::LoadBase(block + 4 * v, zero_point);
    RQ_UNROLL for (int i = 0; i < 6; ++i) {
      weight[i] = wasm_v128_load(kQuartets == 1 ? w + 16 * i : w + 32 * i);
    }
    const uint8_t* x0 = row0;
    const uint8_t* x1 = row1;
    int32_t* out = acc;
    for (int32_t left = count; left > 0; --left, x0 += next, x1 += next, out += acc_stride) {
      if (kQuartets == 1) {
        v128_t sum0 = base[0], sum1 = base[kVectors - 1];
        RQ_UNROLL for (int kx = 0; kx < 3; ++kx) {
          sum0 = Dot8::Add(weight[2 * kx], wasm_v128_load(x0 + kx * tap), sum0);
          sum1 = Dot8::Add(weight[2 * kx + 1], wasm_v128_load(x0 + kx * tap + 16), sum1);
        }
        wasm_v128_store(out, sum0);
        wasm_v128_store(out + 4, sum1);
      } else {
        v128_t sum0 = base[0], sum1 = wasm_i32x4_splat(0);
        RQ_UNROLL for (int kx = 0; kx < 3; ++kx) {
          sum0 = Dot8::Add(weight[kx], wasm_v128_load(x0 + kx * tap), sum0);
          sum1 = Dot8::Add(weight[3 + kx], wasm_v128_load(x1 + kx * tap), sum1);
        }
        wasm_v128_store(out, wasm_i32x4_add(sum0, sum1));
      }
    }
    row0 += 16, row1 += 16, w += 16, block += 4, acc += 4;
  }
}

/// Multiplies `count` pixels of eight channels under any window. Its quartets lie in a ring of
/// `slots`, from first_slot on.
template <typename Dot8>
static __attribute__((noinline)) void WindowAny(const uint8_t* ring, ptrdiff_t slot_bytes,
                                                int32_t slots, int32_t first_slot, int32_t quartets,
                                                int32_t kernel_w, ptrdiff_t tap, ptrdiff_t next,
                                                const int32_t* block, int32_t zero_point,
                                                const int8_t* weights, int32_t count, int32_t* acc,
                                                int32_t acc_stride) {
  const v128_t base0 = simd::LoadBase(block, zero_point);
  const v128_t base1 = simd::LoadBase(block + 4, zero_point);
  for (; count > 0; --count, ring += next, acc += acc_stride) {
    v128_t sum0 = base0, sum1 = base1;
    const int8_t* w = weights;
    int32_t slot = first_slot;
    for (int32_t q = 0; q < quartets; ++q) {
      const uint8_t* x = ring + slot * slot_bytes;
      for (int32_t kx = 0; kx < kernel_w; ++kx, w += 32, x += tap) {
        sum0 = Dot8::Add(wasm_v128_load(w), wasm_v128_load(x), sum0);
        sum1 = Dot8::Add(wasm_v128_load(w + 16), wasm_v128_load(x + 16), sum1);
      }
      if (++slot == slots) slot = 0;
    }
    wasm_v128_store(acc, sum0);
    wasm_v128_store(acc + 4, sum1);
  }
}

/// The rows of a quartet that lie in the window, as a byte of 1 for each.
RQ_INLINE v128_t RowsUnder(int32_t kernel_h, int32_t phase, int32_t quartet) {
  uint32_t ones = 0;
  for (int32_t i = 0; i < 4; ++i) {
    const int32_t row = 4 * quartet + i - phase;
    ones |= row >= 0 && row < kernel_h ? 1U << 8 * i : 0;
  }
  return wasm_i32x4_splat(static_cast<int32_t>(ones));
}

/// Whether the middles of a block are not all 0.
RQ_INLINE bool IsAffine(const int32_t* block) {
  return wasm_v128_any_true(wasm_v128_or(wasm_v128_load(block + 16), wasm_v128_load(block + 20)));
}

/// acc += middles * (sums of windows), as WindowAny multiplies.
template <typename Dot8>
static __attribute__((noinline)) void AddMiddles(const uint8_t* ring, ptrdiff_t slot_bytes,
                                                 int32_t slots, int32_t first_slot,
                                                 int32_t quartets, int32_t kernel_h, int32_t phase,
                                                 int32_t kernel_w, ptrdiff_t tap, ptrdiff_t next,
                                                 const int32_t* middles, int32_t count,
                                                 int32_t* acc, int32_t acc_stride) {
  const v128_t middle0 = wasm_v128_load(middles), middle1 = wasm_v128_load(middles + 4);
  for (; count > 0; --count, ring += next, acc += acc_stride) {
    v128_t sum0 = wasm_i32x4_splat(0), sum1 = sum0;
    int32_t slot = first_slot;
    for (int32_t q = 0; q < quartets; ++q) {
      const v128_t ones = RowsUnder(kernel_h, phase, q);
      const uint8_t* x = ring + slot * slot_bytes;
      for (int32_t kx = 0; kx < kernel_w; ++kx, x += tap) {
        sum0 = Dot8::Add(ones, wasm_v128_load(x), sum0);
        sum1 = Dot8::Add(ones, wasm_v128_load(x + 16), sum1);
      }
      if (++slot == slots) slot = 0;
    }
    const v128_t more0 = wasm_i32x4_mul(sum0, middle0), more1 = wasm_i32x4_mul(sum1, middle1);
    wasm_v128_store(acc, wasm_i32x4_add(wasm_v128_load(acc), more0));
    wasm_v128_store(acc + 4, wasm_i32x4_add(wasm_v128_load(acc + 4), more1));
  }
}

/// Multiplies all channels of a group for `count` pixels from ox on; accumulators are
/// [pixel][group].
template <typename Dot8>
RQ_INLINE void StripDot8(const ConvGeometry& g, const uint8_t* ring, ptrdiff_t slot_bytes,
                         int32_t slots, int32_t slot, int32_t phase, int32_t group, int32_t n,
                         const uint8_t* block, int32_t zero_point, int32_t ox, int32_t count,
                         int32_t* acc) {
  const ptrdiff_t column = 4 * static_cast<ptrdiff_t>(group);
  const ptrdiff_t tap = g.dilation_w * column, next = g.stride_w * column;
  const int32_t quartets = Quartets(g.kernel_h, phase);
  const int32_t block_bytes = Dot8BlockBytes(g.kernel_h, g.kernel_w);
  const ptrdiff_t offset = kDot8HeaderBytes + PhaseOffset(g.kernel_h, g.kernel_w, phase);
  const uint8_t* x = ring + ox * next;
  for (int32_t i = 0; i < n; i += 8, block += block_bytes, x += 32, acc += 8) {
    const int32_t* base = reinterpret_cast<const int32_t*>(block);
    const int8_t* w = reinterpret_cast<const int8_t*>(block + offset);
    const uint8_t* row0 = x + slot * slot_bytes;
    if (g.kernel_w == 3 && quartets == 1) {
      Window3<Dot8, 1>(row0, row0, tap, next, base, zero_point, w, count, acc, group);
    } else if (g.kernel_w == 3 && quartets == 2) {
      const uint8_t* row1 = x + (slot + 1 == slots ? 0 : slot + 1) * slot_bytes;
      Window3<Dot8, 2>(row0, row1, tap, next, base, zero_point, w, count, acc, group);
    } else {
      WindowAny<Dot8>(x, slot_bytes, slots, slot, quartets, g.kernel_w, tap, next, base, zero_point,
                      w, count, acc, group);
    }
    if (IsAffine(base)) {
      AddMiddles<Dot8>(x, slot_bytes, slots, slot, quartets, g.kernel_h, phase, g.kernel_w, tap,
                       next, base + 16, count, acc, group);
    }
  }
}

template <typename Dot8>
RQ_INLINE void DwConvDot8(const DwConvQ8Params* p) {
  const ConvGeometry& g = p->geometry;
  const auto coding = simd::CodingOf<Dot8>(p->input_signed, p->input_zero_point, p->row_end);
  const int32_t slots = Quartets(g.kernel_h, 3);
  const int32_t group = ChannelGroup(g, slots);
  const ptrdiff_t slot_bytes = static_cast<ptrdiff_t>(PaddedWidth(g)) * group * 4;
  const ptrdiff_t block_bytes = Dot8BlockBytes(g.kernel_h, g.kernel_w);
  int32_t* acc = static_cast<int32_t*>(p->workspace);
  uint8_t* ring = reinterpret_cast<uint8_t*>(acc + kStripElements);
  WalkRing<4>(
      p, group, slots, acc,
      [=](int32_t image, int32_t row, int32_t step, int32_t channel, int32_t n, int32_t slot)
          __attribute__((always_inline)) {
            Interleave(p, image, row, step, channel, n, group, coding.flip, coding.zero_point,
                       ring + slot * slot_bytes);
          },
      [=](int32_t channel, int32_t n, int32_t slot, int32_t phase, int32_t ox,
          int32_t count) __attribute__((always_inline)) {
        const uint8_t* block = static_cast<const uint8_t*>(p->weights) + channel / 8 * block_bytes;
        StripDot8<Dot8>(p->geometry, ring, slot_bytes, slots, slot, phase, group, n, block,
                        coding.zero_point, ox, count, acc);
      },
      [=](const Results& results) __attribute__((always_inline)) { FinishBytes(p, results); });
}

}  // namespace requant::dwconv

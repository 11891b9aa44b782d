#pragma once
// 8-bit convolution for machines where i32x4.relaxed_dot_i8x16_i7x16_add_s multiplies all eight
// bits exactly: the template behind vector_dot8.cpp. Freestanding.
//
// The weights less their zero points, w, are the first operand, signed bytes. The inputs x' are the
// second operand, unsigned or signed as the instruction takes them here (rq_dot8). Bytes of the
// other type get their top bit flipped, which moves the zero point z' by 128. With padding holding
// z',
//
//   sum((x' - z') * w) = sum(x' * w) - z' * sum(w)
//
// where sum(w) is packed with the weights: [K / 4][8 channels][4] behind 8 biases and 8 sums. A 1x1
// window over bytes of the right type is read in place.
//
// Affine weights need nine bits. They are packed less the middle m of their channel's range, which
// leaves eight, and the kernel adds
//
//   m * sum(x' - z') = m * (sum(x') - z' * n)
//
// where n counts the bytes of a gathered row, the padding behind K included. The products of a row
// with ones are sum(x'). The 8 middles follow the sums of a block, and blocks whose middles are all
// 0 skip this. Every sum is exact modulo 2^32, so only the final accumulator has to fit int32.
//
// Lines read in place have other pixels, not padding, behind a run. There the bytes behind a run's
// weights are -m, which stands for a weight of 0, and sum(w) counts m for every weight of the
// window, so that m * sum(x') is all that the kernel adds.
#include "kernels/conv/finish.h"
#include "kernels/conv/gather/gather_bytes.h"
#include "kernels/conv/lines.h"
#include "kernels/conv/product.h"
#include "kernels/dot8.h"

namespace requant::conv {

template <typename Dot8>
struct Dot8Op {
  using In = uint8_t;
  using Weight = int8_t;
  static constexpr int kGroup = kDot8Group;
  static constexpr bool kPasses = true;
  RQ_INLINE v128_t Load(const int8_t* w) { return wasm_v128_load(w); }
  RQ_INLINE v128_t Dot(v128_t w, v128_t x, v128_t acc) { return Dot8::Add(w, x, acc); }
};

/// int32 values in front of a block's weights: biases, sums and middles.
inline constexpr ptrdiff_t kDot8Header = 3 * kChannelBlock;

/// Whether a block's middles are not all 0.
RQ_INLINE bool IsAffine(const int32_t* block) {
  const int32_t* middles = block + 2 * kChannelBlock;
  return wasm_v128_any_true(wasm_v128_or(wasm_v128_load(middles), wasm_v128_load(middles + 4)));
}

/// The sum of (byte - zero_point) over a row's `length` bytes, as the instruction takes them.
/// `length` is a multiple of 4.
template <typename Dot8>
static __attribute__((noinline)) int32_t SumOf(const uint8_t* row, int32_t length,
                                               int32_t zero_point) {
  const v128_t ones = wasm_i8x16_splat(1);
  v128_t sum = wasm_i32x4_mul(wasm_i32x4_make(zero_point, 0, 0, 0), wasm_i32x4_splat(-length));
  for (; length >= 16; length -= 16, row += 16) sum = Dot8::Add(ones, wasm_v128_load(row), sum);
  for (; length > 0; length -= 4, row += 4) {
    sum = Dot8::Add(ones, wasm_v128_load32_zero(row), sum);
  }
  sum = wasm_i32x4_add(sum, wasm_i32x4_shuffle(sum, sum, 2, 3, 0, 1));
  sum = wasm_i32x4_add(sum, wasm_i32x4_shuffle(sum, sum, 1, 0, 3, 2));
  return wasm_i32x4_extract_lane(sum, 0);
}

/// out[count][8] = base + terms[r] * middles, the initial accumulators of a block of affine
/// weights. `base` may be `out`.
[[maybe_unused]] static __attribute__((noinline)) void StartRows(const int32_t* base,
                                                                 const int32_t* middles,
                                                                 const int32_t* terms,
                                                                 int32_t count, int32_t* out) {
  const v128_t base0 = wasm_v128_load(base), base1 = wasm_v128_load(base + 4);
  const v128_t middles0 = wasm_v128_load(middles), middles1 = wasm_v128_load(middles + 4);
  for (; count > 0; --count, ++terms, out += kChannelBlock) {
    const v128_t term = wasm_v128_load32_splat(terms);
    wasm_v128_store(out, wasm_i32x4_add(base0, wasm_i32x4_mul(term, middles0)));
    wasm_v128_store(out + 4, wasm_i32x4_add(base1, wasm_i32x4_mul(term, middles1)));
  }
}

template <typename Dot8>
RQ_INLINE void ConvDot8(const ConvQ8Params* p) {
  const ConvGeometry& g = p->geometry;
  const int32_t steps = (Depth(g) + kDot8Group - 1) / kDot8Group;
  const int32_t group_in = g.in_c / g.groups, group_out = g.out_c / g.groups;
  const ptrdiff_t weight_bytes = static_cast<ptrdiff_t>(steps) * kDot8Group * kChannelBlock;
  const auto coding = simd::CodingOf<Dot8>(p->input_signed, p->input_zero_point, p->row_end);
  const bool in_place = IsPointwise(g) && !coding.flip && group_in % kDot8Group == 0;
  const int32_t panel_rows = PanelRows(g, steps * kDot8Group);
  int32_t* base = static_cast<int32_t*>(p->workspace);
  int32_t* acc = base + kChannelBlock;
  uint8_t* panel = reinterpret_cast<uint8_t*>(acc + kEpilogueRows * kChannelBlock);
  int32_t* terms =
      reinterpret_cast<int32_t*>(panel + static_cast<ptrdiff_t>(panel_rows) * steps * kDot8Group);

  for (int32_t row = p->row_begin; row < p->row_end; row += panel_rows) {
    const int32_t count = p->row_end - row < panel_rows ? p->row_end - row : panel_rows;
    const int32_t* block = static_cast<const int32_t*>(p->weights);
    for (int32_t group = 0; group < g.groups; ++group) {
      const uint8_t* a = panel;
      ptrdiff_t lda = steps * kDot8Group;
      if (in_place) {
        lda = g.input_stride;
        a = static_cast<const uint8_t*>(p->input) + row * lda + group * group_in;
      } else {
        rq_conv_gather_bytes(p, group * group_in, row, count, coding.flip ? 128 : 0,
                             coding.zero_point, panel, lda);
      }
      bool has_terms = false;
      for (int32_t channel = 0; channel < group_out; channel += kChannelBlock) {
        const int32_t rest = group_out - channel;
        const int32_t n = rest < kChannelBlock ? rest : kChannelBlock;
        const int8_t* w = reinterpret_cast<const int8_t*>(block + kDot8Header);
        const int32_t* next = reinterpret_cast<const int32_t*>(w + weight_bytes);
        const bool affine = IsAffine(block);
        if (affine && !has_terms) {
          for (int32_t r = 0; r < count; ++r) {
            terms[r] = SumOf<Dot8>(a + r * lda, steps * kDot8Group, coding.zero_point);
          }
          has_terms = true;
        }
        if (count == 1 && n < rest && !affine && !IsAffine(next)) {
          simd::StoreBase(block, coding.zero_point, acc);
          simd::StoreBase(next, coding.zero_point, acc + kChannelBlock);
          SingleRow<Dot8Op<Dot8>, 2>(a, w, weight_bytes + kDot8Header * 4, steps, acc,
                                     kChannelBlock, acc);
          Finish(p, acc, row, 1, group * group_out + channel,
                 rest < 2 * kChannelBlock ? rest : 2 * kChannelBlock);
          channel += kChannelBlock;
          block = reinterpret_cast<const int32_t*>(
              reinterpret_cast<const int8_t*>(next + kDot8Header) + weight_bytes);
          continue;
        }
        simd::StoreBase(block, coding.zero_point, base);
        const int32_t* from = affine ? acc : base;
        const ptrdiff_t from_step = affine ? kChannelBlock : 0;
        for (int32_t r = 0; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          if (affine) StartRows(base, block + 2 * kChannelBlock, terms + r, strip, acc);
          Product<Dot8Op<Dot8>>(a + r * lda, lda, w, steps, from, from_step, strip, acc);
          Finish(p, acc, row + r, strip, group * group_out + channel, n);
        }
        block = next;
      }
    }
    AddResidual(p, row, count);
  }
}

/// sums[i] = the sum of `run` bytes, a multiple of 4, `step` bytes after those of i - 1.
template <typename Dot8>
static __attribute__((noinline)) void SumRuns(const uint8_t* in, ptrdiff_t step, int32_t run,
                                              int32_t count, int32_t* sums) {
  const v128_t ones = wasm_i8x16_splat(1);
  for (; count >= 4; count -= 4, in += 4 * step, sums += 4) {
    v128_t sum = wasm_i32x4_splat(0);
    for (int32_t k = 0; k < run; k += 4) {
      v128_t x = wasm_v128_load32_zero(in + k);
      x = wasm_v128_load32_lane(in + step + k, x, 1);
      x = wasm_v128_load32_lane(in + 2 * step + k, x, 2);
      x = wasm_v128_load32_lane(in + 3 * step + k, x, 3);
      sum = Dot8::Add(ones, x, sum);
    }
    wasm_v128_store(sums, sum);
  }
  for (; count > 0; --count, in += step, ++sums) *sums = SumOf<Dot8>(in, run, 0);
}

/// sums[r] = the sum of the `lines` rows of terms, `width` apart, at r.
[[maybe_unused]] static __attribute__((noinline)) void SumLines(const int32_t* terms, int32_t width,
                                                                int32_t lines, int32_t count,
                                                                int32_t* sums) {
  for (int32_t r = 0; r < count; r += 4) {
    // Rows of terms may be read beyond their end, into the next row or the ring.
    v128_t sum = wasm_v128_load(terms + r);
    for (int32_t y = 1; y < lines; ++y) {
      sum = wasm_i32x4_add(sum, wasm_v128_load(terms + y * width + r));
    }
    wasm_v128_store(sums + r, sum);
  }
}

/// Whether any block of a layer without groups has middles that are not 0.
RQ_INLINE bool HasAffineBlocks(const uint8_t* blocks, int32_t channels, ptrdiff_t block_bytes) {
  for (; channels > 0; channels -= kChannelBlock, blocks += block_bytes) {
    if (IsAffine(reinterpret_cast<const int32_t*>(blocks))) return true;
  }
  return false;
}

template <typename Dot8>
RQ_INLINE void ConvDot8Lines(const ConvQ8Params* p) {
  const ConvGeometry& g = p->geometry;
  const auto coding = simd::CodingOf<Dot8>(p->input_signed, p->input_zero_point, p->row_end);
  const int32_t run = (g.kernel_w * g.in_c + kDot8Group - 1) / kDot8Group * kDot8Group;
  const int32_t step = g.stride_w * g.in_c;
  const auto* weights = static_cast<const uint8_t*>(p->weights);
  const ptrdiff_t block_bytes =
      kDot8Header * 4 + static_cast<ptrdiff_t>(g.kernel_h) * run * kChannelBlock;
  const bool affine = HasAffineBlocks(weights, g.out_c, block_bytes);
  int32_t* base = static_cast<int32_t*>(p->workspace);
  int32_t* acc = base + kChannelBlock;
  int32_t* sums = acc + kEpilogueRows * kChannelBlock;  // [kEpilogueRows]: of whole windows
  int32_t* terms = sums + kEpilogueRows;                // [ring lines][out_w]: of runs
  ConvLines<Dot8Op<Dot8>>(
      p, weights, kDot8Header * 4, acc, reinterpret_cast<uint8_t*>(terms + g.kernel_h * g.out_w),
      [ p, coding, affine, terms, run, step ](int32_t image, int32_t y, int32_t slot, uint8_t * out)
          __attribute__((always_inline)) {
            rq_conv_pad_line_bytes(p, image, y, coding.flip ? 128 : 0, coding.zero_point, out);
            if (!affine) return;
            const int32_t width = p->geometry.out_w;
            SumRuns<Dot8>(out, step, run, width, terms + slot * width);
          },
      [ p, coding, affine, weights, base, acc, sums,
        terms ](const uint8_t* block, int32_t ox, int32_t count) __attribute__((always_inline)) {
        if (affine && block == weights) {
          // The lines of the ring are exactly those of a window.
          SumLines(terms + ox, p->geometry.out_w, p->geometry.kernel_h, count, sums);
        }
        const auto* header = reinterpret_cast<const int32_t*>(block);
        simd::StoreBase(header, coding.zero_point, base);
        if (!IsAffine(header)) return LineStart{base};
        StartRows(base, header + 2 * kChannelBlock, sums, count, acc);
        return LineStart{acc, kChannelBlock};
      });
}

}  // namespace requant::conv

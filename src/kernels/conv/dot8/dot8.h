#pragma once
// 8-bit convolution for machines where i32x4.relaxed_dot_i8x16_i7x16_add_s multiplies all eight
// bits exactly: the template behind vector_dot8.cpp. Freestanding.
//
// The weights less their zero points are the first operand, signed bytes. The inputs x' are the
// second operand, unsigned or signed as the instruction takes them here (rq_dot8). Bytes of the
// other type get their top bit flipped, which moves the zero point z' by 128. With padding holding
// z',
//
//   sum((x' - z') * w) = sum(x' * w) - z' * sum(w)
//
// where sum(w) is packed with the weights: [K / 4][8 channels][4] behind 8 biases and 8 sums. A 1x1
// window over bytes of the right type is read in place.
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
      for (int32_t channel = 0; channel < group_out; channel += kChannelBlock) {
        const int32_t rest = group_out - channel;
        const int32_t n = rest < kChannelBlock ? rest : kChannelBlock;
        const int8_t* w = reinterpret_cast<const int8_t*>(block + 2 * kChannelBlock);
        const int32_t* next = reinterpret_cast<const int32_t*>(w + weight_bytes);
        if (count == 1 && n < rest) {
          simd::StoreBase(block, coding.zero_point, acc);
          simd::StoreBase(next, coding.zero_point, acc + kChannelBlock);
          SingleRow<Dot8Op<Dot8>, 2>(a, w, weight_bytes + 2 * kChannelBlock * 4, steps, acc,
                                     kChannelBlock, acc);
          Finish(p, acc, row, 1, group * group_out + channel,
                 rest < 2 * kChannelBlock ? rest : 2 * kChannelBlock);
          channel += kChannelBlock;
          block = reinterpret_cast<const int32_t*>(
              reinterpret_cast<const int8_t*>(next + 2 * kChannelBlock) + weight_bytes);
          continue;
        }
        simd::StoreBase(block, coding.zero_point, base);
        for (int32_t r = 0; r < count; r += kEpilogueRows) {
          const int32_t strip = count - r < kEpilogueRows ? count - r : kEpilogueRows;
          Product<Dot8Op<Dot8>>(a + r * lda, lda, w, steps, base, 0, strip, acc);
          Finish(p, acc, row + r, strip, group * group_out + channel, n);
        }
        block = next;
      }
    }
    AddResidual(p, row, count);
  }
}

template <typename Dot8>
RQ_INLINE void ConvDot8Lines(const ConvQ8Params* p) {
  const auto coding = simd::CodingOf<Dot8>(p->input_signed, p->input_zero_point, p->row_end);
  int32_t* base = static_cast<int32_t*>(p->workspace);
  int32_t* acc = base + kChannelBlock;
  ConvLines<Dot8Op<Dot8>>(
      p, static_cast<const uint8_t*>(p->weights), 2 * kChannelBlock * 4, acc,
      reinterpret_cast<uint8_t*>(acc + kEpilogueRows * kChannelBlock),
      [ p, coding ](int32_t image, int32_t y, uint8_t * out) __attribute__((always_inline)) {
        rq_conv_pad_line_bytes(p, image, y, coding.flip ? 128 : 0, coding.zero_point, out);
      },
      [ coding, base ](const uint8_t* block) __attribute__((always_inline)) {
        simd::StoreBase(block, coding.zero_point, base);
        return base;
      });
}

}  // namespace requant::conv

// 3x3 convolution of few bits by tiles of 2 x 2 outputs, with a stride of 1 or 2
// (winograd_bytes.h).
//
// Codes x less the least one are at most 31. With `range` their largest value, B^T x B is within
// +-2 range, or within 0 to 4 range at point (1, 1). All points but that one get 2 range added, so
// that they are bytes in [0, 127]. Weights of at most four bits become signed bytes of at most 9 *
// 14. With a stride of 2 inputs are differences in no, one or both directions, and weights grow by
// a factor of at most four.
#include "kernels/conv/narrow/narrow_rows.h"
#include "kernels/conv/winograd/winograd_bytes.h"
#include "kernels/conv/winograd/winograd_tile_2x2.h"
#include "kernels/conv/winograd/winograd_tile_strided.h"

namespace requant {
namespace {

using conv::WinogradShape;

/// Multiplies by a dot product on whose result every engine agrees for these operands. It is fast
/// where it is one instruction (rq_dot8).
struct Dot7 {
  RQ_INLINE v128_t Add(v128_t w, v128_t x, v128_t acc) { return simd::DotI8I7Add(w, x, acc); }
};

/// Multiplies with int16 sums of `segment` steps (vector_narrow.cpp).
template <WinogradShape kShape>
RQ_INLINE void MultiplyNarrow(const uint8_t* panel, ptrdiff_t pitch, const uint8_t* weights,
                              int32_t steps, int32_t segment, const conv::WinogradFrom& from,
                              int32_t count, int32_t* products) {
  const int32_t* begin = from.at;
  for (int32_t point = 0; point < kShape.Points(); ++point) {
    rq_conv_narrow_rows(panel, pitch, weights + conv::WeightBytesBefore(kShape.stride, point),
                        steps, segment, begin, from.tile, count, products);
    panel += count * pitch;
    products += conv::WinogradProductBytes(kShape) / 4;
    begin += from.point;
  }
}

/// The largest transformed input of a point, its addend included, in multiples of the codes' range.
RQ_INLINE int32_t MostInput(int32_t stride, bool line_alike, bool column_alike) {
  if (stride == 1) return 4;
  return (line_alike ? 1 : 2) * (column_alike ? 1 : 2);
}

/// Whether int16 holds the sums of `segment` steps for inputs up to `most`; `bounds` has room for
/// eight int32.
RQ_INLINE bool SegmentFits(const uint8_t* weights, int32_t steps, int32_t segment, int32_t most,
                           int32_t* bounds) {
  rq_conv_narrow_bounds(weights, steps, segment, 0, most, bounds);
  const v128_t least = wasm_i32x4_splat(INT16_MIN), highest = wasm_i32x4_splat(INT16_MAX);
  return wasm_i32x4_all_true(wasm_i32x4_ge(wasm_v128_load(bounds), least)) &&
         wasm_i32x4_all_true(wasm_i32x4_le(wasm_v128_load(bounds + 4), highest));
}

template <typename Tile, WinogradShape kShape>
RQ_INLINE int32_t SegmentOf(const conv::WinogradNarrowHeader* header, const uint8_t* packed,
                            int32_t steps, uint8_t* scratch) {
  using Operand = conv::WinogradBytes<Tile, kShape>;
  int32_t segment = conv::kWinogradSteps;
  auto* bounds = reinterpret_cast<int32_t*>(scratch);
  uint8_t* transformed = scratch + 64;
  for (int32_t step = 0; step < steps; step += conv::kWinogradSteps) {
    const int32_t rest = steps - step;
    const int32_t some = rest < conv::kWinogradSteps ? rest : conv::kWinogradSteps;
    conv::TransformWeights<Operand>(packed + static_cast<ptrdiff_t>(step) * Operand::kStepBytes,
                                    some, header, transformed);
    for (int32_t i = 0; i < kShape.WeightLines(); ++i) {
      for (int32_t j = 0; j < kShape.WeightColumns(); ++j) {
        const uint8_t* weights =
            transformed + kShape.WeightPoint(i, j) * conv::kWinogradWeightBytes;
        const int32_t most = MostInput(kShape.stride, kShape.IsAlike(i), kShape.IsAlike(j));
        while (segment > 1 &&
               !SegmentFits(weights, some, segment, most * header->input_range, bounds)) {
          segment /= 2;
        }
      }
    }
  }
  return segment;
}

template <typename Tile, WinogradShape kShape>
RQ_INLINE void Conv(const ConvQ8Params* p, const conv::WinogradAdds& adds) {
  using Operand = conv::WinogradBytes<Tile, kShape>;
  const auto& header = *static_cast<const conv::WinogradNarrowHeader*>(p->weights);
  conv::ConvWinograd<Operand>(
      p, sizeof header, adds,
      [&header](const uint8_t* inputs, ptrdiff_t pitch, const uint8_t* weights, int32_t steps,
                const typename Operand::Block* block, const conv::WinogradFrom& from, int32_t count,
                int32_t* products) __attribute__((always_inline)) {
        if (header.dot8 != 0) {
          conv::MultiplyBytes<Dot7>(kShape.Points(), kShape.stride, inputs, pitch, weights, steps,
                                    from.at, from.point, from.tile, count, products);
        } else {
          MultiplyNarrow<kShape>(inputs, pitch, weights, steps, block->segment, from, count,
                                 products);
        }
      },
      [p](int32_t * sums, int32_t row, int32_t rows, int32_t channel, int32_t n)
          __attribute__((always_inline)) { bitserial::Finish(p, sums, row, rows, channel, n); });
}

}  // namespace
}  // namespace requant

void rq_conv_q8_winograd_narrow(const requant::ConvQ8Params* p) {
  using namespace requant;
  const auto& header = *static_cast<const conv::WinogradNarrowHeader*>(p->weights);
  const int32_t range = header.input_range;
  Conv<conv::Tile2x2, conv::kWinogradNarrow>(p, {2 * range, 2 * range, -4 * header.input_lo});
}
void rq_conv_q8_winograd_strided_narrow(const requant::ConvQ8Params* p) {
  using namespace requant;
  const auto& header = *static_cast<const conv::WinogradNarrowHeader*>(p->weights);
  const int32_t range = header.input_range;
  Conv<conv::TileStrided, conv::kWinogradStridedNarrow>(p, {2 * range, range, -header.input_lo});
}

int32_t rq_conv_winograd_segment(const requant::conv::WinogradNarrowHeader* header, int32_t stride,
                                 const uint8_t* packed, int32_t steps, uint8_t* scratch) {
  using namespace requant;
  if (stride == 1) {
    return SegmentOf<conv::Tile2x2, conv::kWinogradNarrow>(header, packed, steps, scratch);
  }
  return SegmentOf<conv::TileStrided, conv::kWinogradStridedNarrow>(header, packed, steps, scratch);
}

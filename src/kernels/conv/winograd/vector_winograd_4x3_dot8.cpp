// 3x3 convolution of two bits by tiles of 4 x 3 outputs (winograd_bytes.h), for machines that
// multiply whole bytes exactly.
//
// Codes less the least one are at most 4 and become bytes in [-120, 120]; weights in [-2, 2] become
// at most 126.
#include "kernels/conv/winograd/winograd_bytes.h"
#include "kernels/conv/winograd/winograd_tile_4x3.h"
#include "kernels/dot8.h"

#if defined(__wasm__) && !defined(REQUANT_RELAXED)
// rq_dot8() is 0 in this variant, so no plan has this kernel.
void rq_conv_q8_winograd_4x3_dot8(const requant::ConvQ8Params*) { __builtin_trap(); }
#else
namespace requant {
namespace {

/// Tiles of an output of 7 x 7 or 8 x 8.
constexpr int32_t kFewTiles = 6;

struct Operand : conv::WinogradBytes<conv::Tile4x3, conv::kWinograd4x3Dot8> {
  static constexpr int32_t kStepBytes = 3 * 2 * 16;
  struct Widening {
    v128_t mask, table0, table1, table2, table3, table4;
  };
  RQ_INLINE Widening WidenWith(const void* header, int32_t steps) {
    const auto& tables = static_cast<const conv::Winograd4x3Header*>(header)->tables;
    return {simd::LoopConstant(int8_t{15}, static_cast<size_t>(steps)),
            wasm_v128_load(tables[0]),
            wasm_v128_load(tables[1]),
            wasm_v128_load(tables[2]),
            wasm_v128_load(tables[3]),
            wasm_v128_load(tables[4])};
  }
  RQ_INLINE void TapColumn(const uint8_t* packed, int x, int half, const Widening& with,
                           v128_t* out) {
    const v128_t codes = wasm_v128_load(packed + (2 * x + half) * 16);
    const v128_t ends = wasm_v128_and(codes, with.mask);
    const v128_t middle = wasm_v128_and(wasm_u16x8_shr(codes, 4), with.mask);
    const v128_t sum = simd::Lookup16(with.table1, ends), far = simd::Lookup16(with.table2, ends);
    const v128_t twice = simd::Lookup16(with.table4, middle);
    out[0] = simd::Lookup16(with.table0, ends);
    out[1] = wasm_i8x16_add(sum, twice);
    out[2] = wasm_i8x16_sub(sum, twice);
    out[3] = wasm_i8x16_add(far, twice);
    out[4] = wasm_i8x16_sub(far, twice);
    out[5] = simd::Lookup16(with.table3, ends);
  }
};

}  // namespace
}  // namespace requant

void rq_conv_q8_winograd_4x3_dot8(const requant::ConvQ8Params* p) {
  using namespace requant;
  const auto& header = *static_cast<const conv::Winograd4x3Header*>(p->weights);
  const int32_t more = simd::TakesUnsigned<simd::Dot8>(p->row_end) ? 128 : 0;
  conv::ConvWinograd<Operand>(
      p, sizeof header, {more, more, more - 12 * header.input_lo},
      [](const uint8_t* inputs, ptrdiff_t pitch, const uint8_t* weights, int32_t steps,
         const Operand::Block*, const conv::WinogradFrom& from, int32_t count,
         int32_t* products) __attribute__((always_inline)) {
        if (count == kFewTiles) {
          conv::MultiplyFewBytes<simd::Dot8, Operand::kShape, kFewTiles>(
              inputs, pitch, weights, steps, from.at, from.point, from.tile, products);
        } else {
          conv::MultiplyBytes<simd::Dot8>(Operand::kShape.Points(), 1, inputs, pitch, weights,
                                          steps, from.at, from.point, from.tile, count, products);
        }
      },
      [p](int32_t * sums, int32_t row, int32_t rows, int32_t channel, int32_t n)
          __attribute__((always_inline)) { bitserial::Finish(p, sums, row, rows, channel, n); });
}
#endif

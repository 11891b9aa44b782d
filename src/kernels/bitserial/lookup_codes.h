#pragma once
// Turns int16 sums of lookups into codes (conv/narrow_codes.h), the last stage of vector_lookup.cpp
// where everything an output adds up fits int16. Vector code, freestanding.
#include "base/simd.h"
#include "kernels/bitserial/lookup.h"
#include "kernels/conv/narrow/narrow_codes.h"

namespace requant::bitserial {

/// The difference between the accumulators of a block and its base: terms[row] + scale * sums[row].
struct LookupSums {
  const int16_t* sums;   ///< [rows][kStripRow], from the first of eight channels on
  const int16_t* terms;  ///< [rows]
  int32_t scale;

  RQ_MEMBER v128_t Of(int32_t row) const {
    const v128_t products = wasm_i16x8_mul(wasm_v128_load(sums + kStripRow * row),
                                           wasm_i16x8_splat(static_cast<int16_t>(scale)));
    return wasm_i16x8_add(products, wasm_v128_load16_splat(terms + row));
  }
};

/// Writes eight channels of `count` rows and adds the residual, if any.
template <conv::CodeForm kForm, bool kAdds>
__attribute__((noinline)) void CodeRows(const int16_t* sums, const int16_t* terms, int32_t scale,
                                        const conv::BlockCodes* codes, int32_t count,
                                        const uint8_t* residual, ptrdiff_t residual_stride,
                                        uint8_t* out, ptrdiff_t out_stride) {
  const LookupSums all = {sums, terms, scale};
  const conv::BlockCodes c = *codes;  // A copy, which the stores below cannot alias.
  constexpr bool kFloat = kForm == conv::CodeForm::kInFloat;
  const auto code = [&](int32_t row) __attribute__((always_inline)) {
    const v128_t acc = wasm_i16x8_add(all.Of(row), c.base);
    if (!kAdds) return kFloat ? conv::FloatCodesOf(acc, c) : conv::CodesOf(conv::LineOf(acc, c), c);
    constexpr bool kFills = kForm == conv::CodeForm::kFillsInt16;
    const v128_t own =
        kFloat ? conv::FloatCodesOf(acc, c) : conv::OwnCodes<kFills>(conv::LineOf(acc, c), c);
    return conv::SumsOf(own, residual + row * residual_stride, c);
  };
  const auto bytes = [&](int32_t first, int32_t second) __attribute__((always_inline)) {
    return kFloat && !kAdds ? conv::FloatBytes(code(first), code(second), c)
                            : conv::ClampCodes(code(first), code(second), c);
  };
  int32_t row = 0;
  for (; row + 2 <= count; row += 2, out += 2 * out_stride) {
    const v128_t both = bytes(row, row + 1);
    wasm_v128_store64_lane(out, both, 0);
    wasm_v128_store64_lane(out + out_stride, both, 1);
  }
  if (row < count) wasm_v128_store64_lane(out, bytes(row, row), 0);
}

/// Writes the codes of eight channels from `channel` on for `count` output rows from `row` on.
RQ_INLINE void WriteCodes(const ConvQ8Params* p, const int16_t* sums, const int16_t* terms,
                          int32_t scale, const conv::BlockCodes* codes, int32_t row, int32_t count,
                          int32_t channel) {
  const ptrdiff_t stride = p->geometry.output_stride, residual_stride = p->residual_stride;
  uint8_t* out = static_cast<uint8_t*>(p->output) + row * stride + channel;
  const auto* residual = static_cast<const uint8_t*>(p->residual);
  const bool adds = residual != nullptr;
  if (adds) residual += row * residual_stride + channel;
  const auto rows = [&]<conv::CodeForm kForm>() __attribute__((always_inline)) {
    if (adds) {
      CodeRows<kForm, true>(sums, terms, scale, codes, count, residual, residual_stride, out,
                            stride);
    } else {
      CodeRows<kForm, false>(sums, terms, scale, codes, count, nullptr, 0, out, stride);
    }
  };
  switch (codes->form) {
    case conv::CodeForm::kIn16Bits:
      return rows.template operator()<conv::CodeForm::kIn16Bits>();
    case conv::CodeForm::kInFloat:
      return rows.template operator()<conv::CodeForm::kInFloat>();
    case conv::CodeForm::kFillsInt16:  // occurs only with a residual
      return CodeRows<conv::CodeForm::kFillsInt16, true>(sums, terms, scale, codes, count, residual,
                                                         residual_stride, out, stride);
  }
}

}  // namespace requant::bitserial

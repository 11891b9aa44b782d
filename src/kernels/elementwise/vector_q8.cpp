// 8-bit addition and multiplication, sixteen bytes at a time. numeric/qadd.h has the normative
// scalars; the comments here say why the vector forms give the same integers.
#include "kernels/bytes_simd.h"
#include "kernels/elementwise/kernel.h"
#include "numeric/qadd.h"

namespace requant {
namespace {

#define RQ_METHOD inline __attribute__((always_inline))

/// One operand as the walk reads it.
struct Operand {
  const uint8_t* data;
  size_t row_stride;
  uint8_t flip;
};

/// The output's saturation in coded form.
struct Output {
  int32_t offset;  // CodeOffset of the output
  v128_t lo, hi, flip;
  template <typename Params>
  RQ_INLINE Output Make(const Params* p) {
    const int32_t offset = simd::CodeOffset(p->out_signed);
    return {offset, wasm_i8x16_splat(static_cast<int8_t>(p->lo - offset)),
            wasm_i8x16_splat(static_cast<int8_t>(p->hi - offset)),
            simd::SplatByte(simd::FlipOf(p->out_signed))};
  }
  /// Packs coded i16 lanes to bytes: the narrowing saturates, then the fused clamp applies.
  RQ_METHOD v128_t Pack(v128_t low, v128_t high) const {
    const v128_t bytes = wasm_i8x16_narrow_i16x8(low, high);
    return wasm_v128_xor(wasm_i8x16_min(wasm_i8x16_max(bytes, lo), hi), flip);
  }
};

/// Makes an Op of Half(a, b), which maps eight coded i16 lanes of each operand to those of the
/// result.
template <typename Op>
struct Halves : Op {
  RQ_METHOD v128_t Low(v128_t a, v128_t b) const {
    return this->Half(wasm_i16x8_extend_low_i8x16(a), wasm_i16x8_extend_low_i8x16(b));
  }
  RQ_METHOD v128_t High(v128_t a, v128_t b) const {
    return this->Half(wasm_i16x8_extend_high_i8x16(a), wasm_i16x8_extend_high_i8x16(b));
  }
};

/// Walks the rows. op.Low(a, b) and op.High(a, b) map halves of coded bytes to eight coded i16
/// lanes. y may be one value for a whole row (y_step 0): a predictable branch costs less than the
/// code of a second loop.
template <typename Op>
RQ_INLINE void Rows(const Operand& x, const Operand& y, int32_t y_step, uint8_t* out_data,
                    size_t out_row_stride, size_t rows, size_t cols, const Output& output,
                    const Op& op) {
  const v128_t a_flip = simd::SplatByte(x.flip);
  const v128_t b_flip = simd::SplatByte(y.flip);
  for (size_t r = 0; r < rows; ++r) {
    const uint8_t* a = x.data + r * x.row_stride;
    const uint8_t* b = y.data + r * y.row_stride;
    uint8_t* out = out_data + r * out_row_stride;
    const v128_t b_splat = wasm_v128_xor(simd::SplatByte(b[0]), b_flip);
    size_t i = 0;
    for (; i + 16 <= cols; i += 16) {
      const v128_t va = wasm_v128_xor(wasm_v128_load(a + i), a_flip);
      v128_t vb = b_splat;
      if (y_step != 0) vb = wasm_v128_xor(wasm_v128_load(b + i), b_flip);
      wasm_v128_store(out + i, output.Pack(op.Low(va, vb), op.High(va, vb)));
    }
    for (; i < cols; i += 8) {
      const size_t left = cols - i < 8 ? cols - i : 8;
      const v128_t va = wasm_v128_xor(simd::LoadPartialBytes(a + i, left), a_flip);
      v128_t vb = b_splat;
      if (y_step != 0) vb = wasm_v128_xor(simd::LoadPartialBytes(b + i, left), b_flip);
      const v128_t low = op.Low(va, vb);
      simd::StorePartialBytes(out + i, output.Pack(low, low), static_cast<int32_t>(left));
    }
  }
}

/// (a * Ma + b * Mb + bias) >> shift by products of 16-bit pairs; the bias includes the zero points
/// and the rounding constant. With M = 2^8 * high + low, a * Ma + b * Mb is one dot product of [2^8
/// a, 2^8 b] with the high parts, which fit int16, and one of [a, b] with the low parts. Sums wrap
/// modulo 2^32, and the total fits int32 (the bound in qadd.h), so the order is free. Multipliers
/// that ShiftIsCommon accepts are brought to kCommonShift: a shift by a constant is one instruction
/// where any other is five (x86-64, V8).
constexpr int kCommonShift = 22;

template <bool kCommon>
struct AddPairs {
  v128_t high, low, bias, out_zero;
  uint32_t shift;

  RQ_METHOD v128_t Quarter(v128_t pairs) const {
    const v128_t sum = wasm_i32x4_add(wasm_i32x4_dot_i16x8(pairs, high),
                                      wasm_i32x4_dot_i16x8(wasm_i16x8_shr(pairs, 8), low));
    return wasm_i32x4_shr(wasm_i32x4_add(sum, bias), kCommon ? kCommonShift : shift);
  }
  /// `ab` holds the bytes a, b of eight elements. Both saturations are far outside the output's
  /// range.
  RQ_METHOD v128_t Half(v128_t ab) const {
    const v128_t zero = wasm_i32x4_splat(0);
    const v128_t first = Quarter(simd::InterleaveLowI8(zero, ab));
    const v128_t second = Quarter(simd::InterleaveHighI8(zero, ab));
    return wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(first, second), out_zero);
  }
  RQ_METHOD v128_t Low(v128_t a, v128_t b) const { return Half(simd::InterleaveLowI8(a, b)); }
  RQ_METHOD v128_t High(v128_t a, v128_t b) const { return Half(simd::InterleaveHighI8(a, b)); }
};

/// Whether the multipliers, brought to kCommonShift, leave every sum inside int32. With |q - z| <=
/// 255 it is below 2^31 if |Ma| + |Mb| is at most 2^23, the rounding constant included. Either
/// multiplier is then below 2^23, and its high part fits int16.
RQ_INLINE bool ShiftIsCommon(const QAddParams* p) {
  if (p->shift > kCommonShift) return false;
  const auto magnitude = [](int32_t m) __attribute__((always_inline)) {
    return static_cast<int64_t>(m < 0 ? -m : m);
  };
  const int64_t sum = magnitude(p->a_multiplier) + magnitude(p->b_multiplier);
  return sum < (int64_t{1} << 23) >> (kCommonShift - p->shift);
}

/// QAddNarrow (numeric/qadd.h) for few codes: products wrap modulo 2^16, and the total fits int16.
struct AddNarrow {
  v128_t ma, mb, bias, middle, step;
  RQ_METHOD v128_t Half(v128_t a, v128_t b) const {
    const v128_t sum = wasm_i16x8_add(wasm_i16x8_mul(a, ma), wasm_i16x8_mul(b, mb));
    return wasm_i16x8_add(simd::RoundingShiftI16(wasm_i16x8_add(sum, bias), step), middle);
  }
};

/// QAddNarrow for all codes and simple factors: a dot product of bytes [a, b], whose sum without
/// the zero points fits int16.
struct AddSimple {
  v128_t factors, bias, middle, step;
  RQ_METHOD v128_t Half(v128_t ab) const {
    const v128_t sum = wasm_i16x8_add_sat(simd::DotI8I7(ab, factors), bias);
    return wasm_i16x8_add(simd::RoundingShiftI16(sum, step), middle);
  }
  RQ_METHOD v128_t Low(v128_t a, v128_t b) const { return Half(simd::InterleaveLowI8(a, b)); }
  RQ_METHOD v128_t High(v128_t a, v128_t b) const { return Half(simd::InterleaveHighI8(a, b)); }
};

/// The float form, operation by operation as in QAddFloat.
struct AddFloat {
  v128_t a_zero, b_zero;  // coded, in i16
  v128_t a_scale, b_scale, out_scale, least, most, zero, offset;
  RQ_METHOD v128_t Quarter(v128_t a, v128_t b) const {
    const v128_t real_a = wasm_f32x4_mul(a_scale, wasm_f32x4_convert_i32x4(a));
    const v128_t real_b = wasm_f32x4_mul(b_scale, wasm_f32x4_convert_i32x4(b));
    const v128_t steps = wasm_f32x4_div(wasm_f32x4_add(real_a, real_b), out_scale);
    const v128_t value = wasm_f32x4_add(simd::ClampF32(steps, least, most), zero);
    return wasm_i32x4_sub(simd::RoundToInt(value), offset);
  }
  RQ_METHOD v128_t Half(v128_t a, v128_t b) const {
    a = wasm_i16x8_sub(a, a_zero);
    b = wasm_i16x8_sub(b, b_zero);
    const v128_t low = Quarter(wasm_i32x4_extend_low_i16x8(a), wasm_i32x4_extend_low_i16x8(b));
    const v128_t high = Quarter(wasm_i32x4_extend_high_i16x8(a), wasm_i32x4_extend_high_i16x8(b));
    return wasm_i16x8_narrow_i32x4(low, high);
  }
};

struct MulFixed {
  v128_t a_zero, b_zero, out_zero;
  FixedMultiplier multiplier;
  RQ_METHOD v128_t Half(v128_t a, v128_t b) const {
    a = wasm_i16x8_sub(a, a_zero);
    b = wasm_i16x8_sub(b, b_zero);
    const v128_t low = simd::RequantizeUpward4(wasm_i32x4_extmul_low_i16x8(a, b),
                                               multiplier.multiplier, multiplier.shift);
    const v128_t high = simd::RequantizeUpward4(wasm_i32x4_extmul_high_i16x8(a, b),
                                                multiplier.multiplier, multiplier.shift);
    return wasm_i16x8_add_sat(wasm_i16x8_narrow_i32x4(low, high), out_zero);
  }
};

/// QMulFloat. The clamp comes before the rounding, which gives the same result because its bounds
/// are integers, and keeps RoundToInt in range.
struct MulFloat {
  v128_t a_zero, b_zero, scale, least, most, out_zero;
  RQ_METHOD v128_t Quarter(v128_t product) const {
    const v128_t value = wasm_f32x4_mul(wasm_f32x4_convert_i32x4(product), scale);
    return simd::RoundToInt(simd::ClampF32(value, least, most));
  }
  RQ_METHOD v128_t Half(v128_t a, v128_t b) const {
    a = wasm_i16x8_sub(a, a_zero);
    b = wasm_i16x8_sub(b, b_zero);
    const v128_t low = Quarter(wasm_i32x4_extmul_low_i16x8(a, b));
    const v128_t high = Quarter(wasm_i32x4_extmul_high_i16x8(a, b));
    return wasm_i16x8_add(wasm_i16x8_narrow_i32x4(low, high), out_zero);
  }
};

/// Walks operands of a symmetric operation. Scales and zero points travel with their operand, so a
/// repeated scalar is always made the second one. Two repeated scalars never come here.
template <typename Params, typename Op>
RQ_INLINE void Walk(const Params* p, bool swap, const Op& op) {
  // Each field is chosen by itself: a choice between two structs would put them in memory.
  const uint8_t a_flip = simd::FlipOf(p->a_signed);
  const uint8_t b_flip = simd::FlipOf(p->b_signed);
  const Operand x{static_cast<const uint8_t*>(swap ? p->b : p->a),
                  swap ? p->b_row_stride : p->a_row_stride, swap ? b_flip : a_flip};
  const Operand y{static_cast<const uint8_t*>(swap ? p->a : p->b),
                  swap ? p->a_row_stride : p->b_row_stride, swap ? a_flip : b_flip};
  const int32_t y_step = swap ? p->a_step : p->b_step;
  if (p->cols == 0) return;
  uint8_t* out = static_cast<uint8_t*>(p->out);
  const Output output = Output::Make(p);
  Rows(x, y, y_step, out, p->out_row_stride, p->rows, p->cols, output, op);
}

RQ_INLINE v128_t SplatI16(int32_t value) { return wasm_i16x8_splat(static_cast<int16_t>(value)); }

template <typename Params>
RQ_INLINE bool MustSwap(const Params* p) {
  return p->a_step == 0 && p->b_step != 0;
}

/// Computes element by element, for two repeated scalars or a multiplier outside the vector form.
template <typename Params, typename Function>
RQ_INLINE void Scalars(const Params* p, Function function) {
  for (size_t r = 0; r < p->rows; ++r) {
    for (size_t c = 0; c < p->cols; ++c) {
      const size_t ia = r * p->a_row_stride + (p->a_step != 0 ? c : 0);
      const size_t ib = r * p->b_row_stride + (p->b_step != 0 ? c : 0);
      const int32_t a = p->a_signed ? static_cast<const int8_t*>(p->a)[ia]
                                    : static_cast<const uint8_t*>(p->a)[ia];
      const int32_t b = p->b_signed ? static_cast<const int8_t*>(p->b)[ib]
                                    : static_cast<const uint8_t*>(p->b)[ib];
      static_cast<uint8_t*>(p->out)[r * p->out_row_stride + c] =
          static_cast<uint8_t>(function(a - p->a_zero, b - p->b_zero));
    }
  }
}

}  // namespace
}  // namespace requant

using namespace requant;

void rq_qadd_fixed(const QAddParams* p) {
  const QAddMultipliers multipliers{p->a_multiplier, p->b_multiplier, p->shift};
  if (p->a_step == 0 && p->b_step == 0) {
    Scalars(p, [&](int32_t a, int32_t b) {
      return QAddFixed(a, b, multipliers, p->out_zero, p->lo, p->hi);
    });
    return;
  }
  const bool swap = MustSwap(p);
  const uint32_t a_zero = static_cast<uint32_t>(p->a_zero - simd::CodeOffset(p->a_signed));
  const uint32_t b_zero = static_cast<uint32_t>(p->b_zero - simd::CodeOffset(p->b_signed));
  const v128_t out_zero = SplatI16(p->out_zero - simd::CodeOffset(p->out_signed));
  const auto zeros_share = [=](int32_t ma, int32_t mb) __attribute__((always_inline)) {
    return a_zero * static_cast<uint32_t>(ma) + b_zero * static_cast<uint32_t>(mb);
  };
  if (p->narrow.shift != 0 && p->a_step != 0 && p->b_step != 0) {
    const QAddNarrow& narrow = p->narrow;
    const auto bias =
        static_cast<int32_t>(static_cast<uint32_t>(narrow.bias) - zeros_share(narrow.a, narrow.b));
    const v128_t middle = SplatI16(narrow.middle - simd::CodeOffset(p->out_signed));
    const v128_t step = simd::RoundingStepI16(narrow.shift);
    if (narrow.saturates != 0) {
      AddSimple op;
      op.factors = wasm_i16x8_splat(static_cast<int16_t>(narrow.b * 256 + narrow.a));
      op.bias = SplatI16(bias);
      op.middle = middle;
      op.step = step;
      Walk(p, false, op);
      return;
    }
    Halves<AddNarrow> op;
    op.ma = wasm_i16x8_splat(narrow.a);
    op.mb = wasm_i16x8_splat(narrow.b);
    op.bias = SplatI16(bias);
    op.middle = middle;
    op.step = step;
    Walk(p, false, op);
    return;
  }
  const bool common = ShiftIsCommon(p);
  const int32_t more = common ? 1 << (kCommonShift - p->shift) : 1;
  const int32_t ma = (swap ? p->b_multiplier : p->a_multiplier) * more;
  const int32_t mb = (swap ? p->a_multiplier : p->b_multiplier) * more;
  const auto shift = common ? static_cast<uint32_t>(kCommonShift) : static_cast<uint32_t>(p->shift);
  const v128_t high = wasm_i32x4_splat((mb >> 8) * 65536 + (ma >> 8 & 65535));
  const v128_t low = wasm_i32x4_splat((mb & 255) * 65536 + (ma & 255));
  const uint32_t zeros = zeros_share(p->a_multiplier * more, p->b_multiplier * more);
  const v128_t bias = wasm_i32x4_splat(static_cast<int32_t>((1u << (shift - 1)) - zeros));
  if (common) {
    const AddPairs<true> op = {high, low, bias, out_zero, shift};
    Walk(p, swap, op);
  } else {
    const AddPairs<false> op = {high, low, bias, out_zero, shift};
    Walk(p, swap, op);
  }
}

void rq_qadd_float(const QAddParams* p) {
  if (p->a_step == 0 && p->b_step == 0) {
    Scalars(p, [&](int32_t a, int32_t b) {
      return QAddFloat(a, b, p->a_scale, p->b_scale, p->out_scale, p->out_zero, p->lo, p->hi);
    });
    return;
  }
  const bool swap = MustSwap(p);
  const v128_t a_zero = SplatI16(p->a_zero - simd::CodeOffset(p->a_signed));
  const v128_t b_zero = SplatI16(p->b_zero - simd::CodeOffset(p->b_signed));
  Halves<AddFloat> op;
  op.a_zero = swap ? b_zero : a_zero;
  op.b_zero = swap ? a_zero : b_zero;
  op.a_scale = wasm_f32x4_splat(swap ? p->b_scale : p->a_scale);
  op.b_scale = wasm_f32x4_splat(swap ? p->a_scale : p->b_scale);
  op.out_scale = wasm_f32x4_splat(p->out_scale);
  op.least = wasm_f32x4_splat(static_cast<float>(p->lo - p->out_zero));
  op.most = wasm_f32x4_splat(static_cast<float>(p->hi - p->out_zero));
  op.zero = wasm_f32x4_splat(static_cast<float>(p->out_zero));
  op.offset = wasm_i32x4_splat(simd::CodeOffset(p->out_signed));
  Walk(p, swap, op);
}

void rq_qmul_fixed(const QMulParams* p) {
  // |product| <= 255 * 255 < 2^16 and the multiplier is below 2^31, so from a shift of 16 on the
  // result fits int32. Smaller shifts mean a factor above 2^15, which only saturates.
  if ((p->a_step == 0 && p->b_step == 0) || p->multiplier.shift < 16) {
    Scalars(p, [&](int32_t a, int32_t b) {
      return QMulFixed(a, b, p->multiplier, p->out_zero, p->lo, p->hi);
    });
    return;
  }
  const bool swap = MustSwap(p);
  const v128_t a_zero = SplatI16(p->a_zero - simd::CodeOffset(p->a_signed));
  const v128_t b_zero = SplatI16(p->b_zero - simd::CodeOffset(p->b_signed));
  Halves<MulFixed> op;
  op.a_zero = swap ? b_zero : a_zero;
  op.b_zero = swap ? a_zero : b_zero;
  op.out_zero = SplatI16(p->out_zero - simd::CodeOffset(p->out_signed));
  op.multiplier = p->multiplier;
  Walk(p, swap, op);
}

void rq_qmul_float(const QMulParams* p) {
  if (p->a_step == 0 && p->b_step == 0) {
    Scalars(p, [&](int32_t a, int32_t b) {
      return QMulFloat(a, b, p->scale, p->out_zero, p->lo, p->hi);
    });
    return;
  }
  const bool swap = MustSwap(p);
  const v128_t a_zero = SplatI16(p->a_zero - simd::CodeOffset(p->a_signed));
  const v128_t b_zero = SplatI16(p->b_zero - simd::CodeOffset(p->b_signed));
  Halves<MulFloat> op;
  op.a_zero = swap ? b_zero : a_zero;
  op.b_zero = swap ? a_zero : b_zero;
  op.scale = wasm_f32x4_splat(p->scale);
  op.least = wasm_f32x4_splat(static_cast<float>(p->lo - p->out_zero));
  op.most = wasm_f32x4_splat(static_cast<float>(p->hi - p->out_zero));
  op.out_zero = SplatI16(p->out_zero - simd::CodeOffset(p->out_signed));
  Walk(p, swap, op);
}

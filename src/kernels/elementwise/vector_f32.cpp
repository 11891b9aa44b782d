// float32 elementwise kernels, eight elements at a time. Every operation rounds once as IEEE 754
// says, so the results are those of the scalar rows bit for bit.
#include "base/simd.h"
#include "kernels/elementwise/kernel.h"

namespace requant {
namespace {

struct Add {
  RQ_INLINE v128_t Run(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
};
struct Sub {
  RQ_INLINE v128_t Run(v128_t a, v128_t b) { return wasm_f32x4_sub(a, b); }
};
struct Mul {
  RQ_INLINE v128_t Run(v128_t a, v128_t b) { return wasm_f32x4_mul(a, b); }
};
struct Div {
  RQ_INLINE v128_t Run(v128_t a, v128_t b) { return wasm_f32x4_div(a, b); }
};

template <bool kStep>
RQ_INLINE v128_t Load(const float* p, size_t i) {
  return kStep ? wasm_v128_load(p + i) : wasm_v128_load32_splat(p);
}
template <bool kStep>
RQ_INLINE v128_t LoadTail(const float* p, size_t i, size_t n) {
  return kStep ? simd::LoadPartial(p + i, static_cast<int32_t>(n)) : wasm_v128_load32_splat(p);
}

template <typename Op, bool kStepA, bool kStepB>
RQ_INLINE void Rows(const BinaryF32Params* p) {
  const v128_t lo = wasm_f32x4_splat(p->lo);
  const v128_t hi = wasm_f32x4_splat(p->hi);
  const size_t n = p->cols;
  for (size_t r = 0; r < p->rows; ++r) {
    const float* a = p->a + r * p->a_row_stride;
    const float* b = p->b + r * p->b_row_stride;
    float* out = static_cast<float*>(p->out) + r * p->out_row_stride;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) {
      const v128_t low = Op::Run(Load<kStepA>(a, i), Load<kStepB>(b, i));
      const v128_t high = Op::Run(Load<kStepA>(a, i + 4), Load<kStepB>(b, i + 4));
      wasm_v128_store(out + i, simd::ClampF32(low, lo, hi));
      wasm_v128_store(out + i + 4, simd::ClampF32(high, lo, hi));
    }
    for (; i < n; i += 4) {
      const size_t left = n - i < 4 ? n - i : 4;
      const v128_t v = Op::Run(LoadTail<kStepA>(a, i, left), LoadTail<kStepB>(b, i, left));
      simd::StorePartial(out + i, simd::ClampF32(v, lo, hi), static_cast<int32_t>(left));
    }
  }
}

template <typename Op>
RQ_INLINE void Binary(const BinaryF32Params* p) {
  if (p->a_step != 0) {
    if (p->b_step != 0) {
      Rows<Op, true, true>(p);
    } else {
      Rows<Op, true, false>(p);
    }
  } else if (p->b_step != 0) {
    Rows<Op, false, true>(p);
  } else {
    Rows<Op, false, false>(p);
  }
}

/// Picks a where is_first or a is a NaN, else b. Wasm's own maximum and minimum take more
/// instructions, for the signs of zeros.
RQ_INLINE v128_t Pick(v128_t is_first, v128_t a, v128_t b) {
  return wasm_v128_bitselect(a, b, wasm_v128_or(is_first, wasm_f32x4_ne(a, a)));
}
struct Max {
  RQ_INLINE v128_t Run(v128_t a, v128_t b) { return Pick(wasm_f32x4_gt(a, b), a, b); }
};
struct Min {
  RQ_INLINE v128_t Run(v128_t a, v128_t b) { return Pick(wasm_f32x4_lt(a, b), a, b); }
};
struct PRelu {
  RQ_INLINE v128_t Run(v128_t x, v128_t slope) {
    return wasm_v128_bitselect(wasm_f32x4_mul(slope, x), x,
                               wasm_f32x4_lt(x, wasm_f32x4_splat(0.0f)));
  }
};

RQ_INLINE v128_t LoadStep(const float* p, size_t i, int32_t step) {
  return step != 0 ? wasm_v128_load(p + i) : wasm_v128_load32_splat(p);
}

/// Walks operands with any steps, for less frequent operations: the loop tests the steps, which
/// takes a fifth of the code.
template <typename Op>
RQ_INLINE void BinaryAnyStep(const BinaryF32Params* p) {
  const v128_t lo = wasm_f32x4_splat(p->lo);
  const v128_t hi = wasm_f32x4_splat(p->hi);
  const size_t n = p->cols;
  for (size_t r = 0; r < p->rows; ++r) {
    const float* a = p->a + r * p->a_row_stride;
    const float* b = p->b + r * p->b_row_stride;
    float* out = static_cast<float*>(p->out) + r * p->out_row_stride;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      const v128_t v = Op::Run(LoadStep(a, i, p->a_step), LoadStep(b, i, p->b_step));
      wasm_v128_store(out + i, simd::ClampF32(v, lo, hi));
    }
    for (; i < n; ++i) {
      const v128_t v = Op::Run(wasm_v128_load32_splat(p->a_step != 0 ? a + i : a),
                               wasm_v128_load32_splat(p->b_step != 0 ? b + i : b));
      wasm_v128_store32_lane(out + i, simd::ClampF32(v, lo, hi), 0);
    }
  }
}

/// -1 where a compares with b as the parameters ask, else 0. A NaN compares with nothing.
struct Compare {
  v128_t greater, equal;
  RQ_INLINE Compare Make(const BinaryF32Params* p) {
    return {wasm_i32x4_splat(p->greater), wasm_i32x4_splat(p->equal)};
  }
  inline __attribute__((always_inline)) v128_t Run(v128_t a, v128_t b) const {
    return wasm_v128_or(wasm_v128_and(wasm_f32x4_gt(a, b), greater),
                        wasm_v128_and(wasm_f32x4_eq(a, b), equal));
  }
};

/// Writes bytes of 0 and 1, four at a time, and the last ones one by one.
RQ_INLINE void CompareRows(const BinaryF32Params* p) {
  const Compare op = Compare::Make(p);
  const size_t n = p->cols;
  const int32_t a_step = p->a_step;
  const int32_t b_step = p->b_step;
  for (size_t r = 0; r < p->rows; ++r) {
    const float* a = p->a + r * p->a_row_stride;
    const float* b = p->b + r * p->b_row_stride;
    uint8_t* out = static_cast<uint8_t*>(p->out) + r * p->out_row_stride;
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      // Narrowing keeps masks masks.
      const v128_t mask = op.Run(LoadStep(a, i, a_step), LoadStep(b, i, b_step));
      const v128_t pairs = wasm_i16x8_narrow_i32x4(mask, mask);
      const v128_t bytes = wasm_i8x16_narrow_i16x8(pairs, pairs);
      wasm_v128_store32_lane(out + i, wasm_v128_and(bytes, wasm_i8x16_splat(1)), 0);
    }
    for (; i < n; ++i) {
      const float x = a[a_step != 0 ? i : 0];
      const float y = b[b_step != 0 ? i : 0];
      out[i] = static_cast<uint8_t>(((x > y ? p->greater : 0) | (x == y ? p->equal : 0)) & 1);
    }
  }
}

struct Clamp {
  v128_t lo, hi;
  RQ_INLINE Clamp Make(const UnaryF32Params* p) {
    return {wasm_f32x4_splat(p->alpha), wasm_f32x4_splat(p->beta)};
  }
  inline __attribute__((always_inline)) v128_t Run(v128_t x) const {
    return simd::ClampF32(x, lo, hi);
  }
};
struct LeakyRelu {
  v128_t alpha;
  RQ_INLINE LeakyRelu Make(const UnaryF32Params* p) { return {wasm_f32x4_splat(p->alpha)}; }
  inline __attribute__((always_inline)) v128_t Run(v128_t x) const {
    return wasm_v128_bitselect(wasm_f32x4_mul(alpha, x), x,
                               wasm_f32x4_lt(x, wasm_f32x4_splat(0.0f)));
  }
};
struct HardSigmoid {
  v128_t alpha, beta;
  RQ_INLINE HardSigmoid Make(const UnaryF32Params* p) {
    return {wasm_f32x4_splat(p->alpha), wasm_f32x4_splat(p->beta)};
  }
  inline __attribute__((always_inline)) v128_t Run(v128_t x) const {
    return simd::ClampF32(wasm_f32x4_add(wasm_f32x4_mul(alpha, x), beta), wasm_f32x4_splat(0.0f),
                          wasm_f32x4_splat(1.0f));
  }
};
struct HardSwish {
  HardSigmoid gate;
  RQ_INLINE HardSwish Make(const UnaryF32Params* p) { return {HardSigmoid::Make(p)}; }
  inline __attribute__((always_inline)) v128_t Run(v128_t x) const {
    return wasm_f32x4_mul(x, gate.Run(x));
  }
};
struct Abs {
  RQ_INLINE Abs Make(const UnaryF32Params*) { return {}; }
  inline __attribute__((always_inline)) v128_t Run(v128_t x) const { return wasm_f32x4_abs(x); }
};
struct Neg {
  RQ_INLINE Neg Make(const UnaryF32Params*) { return {}; }
  inline __attribute__((always_inline)) v128_t Run(v128_t x) const { return wasm_f32x4_neg(x); }
};
struct Sqrt {
  RQ_INLINE Sqrt Make(const UnaryF32Params*) { return {}; }
  inline __attribute__((always_inline)) v128_t Run(v128_t x) const { return wasm_f32x4_sqrt(x); }
};

template <typename Op>
RQ_INLINE void Unary(const UnaryF32Params* p) {
  const Op op = Op::Make(p);
  const float* in = p->in;
  float* out = p->out;
  const size_t n = p->n;
  size_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const v128_t low = op.Run(wasm_v128_load(in + i));
    const v128_t high = op.Run(wasm_v128_load(in + i + 4));
    wasm_v128_store(out + i, low);
    wasm_v128_store(out + i + 4, high);
  }
  for (; i < n; i += 4) {
    const int32_t left = n - i < 4 ? static_cast<int32_t>(n - i) : 4;
    simd::StorePartial(out + i, op.Run(simd::LoadPartial(in + i, left)), left);
  }
}

}  // namespace
}  // namespace requant

using requant::BinaryF32Params;
using requant::UnaryF32Params;

void rq_add_f32(const BinaryF32Params* p) { requant::Binary<requant::Add>(p); }
void rq_sub_f32(const BinaryF32Params* p) { requant::Binary<requant::Sub>(p); }
void rq_mul_f32(const BinaryF32Params* p) { requant::Binary<requant::Mul>(p); }
void rq_div_f32(const BinaryF32Params* p) { requant::Binary<requant::Div>(p); }
void rq_max_f32(const BinaryF32Params* p) { requant::BinaryAnyStep<requant::Max>(p); }
void rq_min_f32(const BinaryF32Params* p) { requant::BinaryAnyStep<requant::Min>(p); }
void rq_prelu_f32(const BinaryF32Params* p) { requant::BinaryAnyStep<requant::PRelu>(p); }
void rq_compare_f32(const BinaryF32Params* p) { requant::CompareRows(p); }
void rq_clamp_f32(const UnaryF32Params* p) { requant::Unary<requant::Clamp>(p); }
void rq_leaky_relu_f32(const UnaryF32Params* p) { requant::Unary<requant::LeakyRelu>(p); }
void rq_hard_sigmoid_f32(const UnaryF32Params* p) { requant::Unary<requant::HardSigmoid>(p); }
void rq_hard_swish_f32(const UnaryF32Params* p) { requant::Unary<requant::HardSwish>(p); }
void rq_abs_f32(const UnaryF32Params* p) { requant::Unary<requant::Abs>(p); }
void rq_neg_f32(const UnaryF32Params* p) { requant::Unary<requant::Neg>(p); }
void rq_sqrt_f32(const UnaryF32Params* p) { requant::Unary<requant::Sqrt>(p); }

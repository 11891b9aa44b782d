// Four lanes with the scalar rows' arithmetic, operation by operation.
#include "kernels/fast_math.h"
#include "kernels/lanes_simd.h"
#include "kernels/softmax/kernel.h"
#include "kernels/softmax/log.h"
#include "kernels/transcendental.h"

namespace requant {
namespace {

RQ_INLINE v128_t Splat(float value) { return wasm_f32x4_splat(value); }

RQ_INLINE float Reduce(v128_t lanes) {
  return (wasm_f32x4_extract_lane(lanes, 0) + wasm_f32x4_extract_lane(lanes, 2)) +
         (wasm_f32x4_extract_lane(lanes, 1) + wasm_f32x4_extract_lane(lanes, 3));
}

/// The maximum of a row, or NaN if it has one.
RQ_INLINE float RowMax(const float* in, size_t n) {
  v128_t most = Splat(-__builtin_inff());
  v128_t nan = wasm_i32x4_splat(0);
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    const v128_t x = wasm_v128_load(in + i);
    most = wasm_f32x4_pmax(most, x);
    nan = wasm_v128_or(nan, wasm_f32x4_ne(x, x));
  }
  most = wasm_f32x4_pmax(most, wasm_i32x4_shuffle(most, most, 2, 3, 0, 1));
  most = wasm_f32x4_pmax(most, wasm_i32x4_shuffle(most, most, 1, 0, 3, 2));
  float result = wasm_f32x4_extract_lane(most, 0);
  if (wasm_v128_any_true(nan)) result = __builtin_nanf("");
  for (; i < n; ++i) {
    if (result < in[i] || in[i] != in[i]) result = in[i];
  }
  return result;
}

/// Clears the lanes from n on, which then add nothing to a sum.
RQ_INLINE v128_t FirstLanes(v128_t x, size_t n) {
  const v128_t lane = wasm_i32x4_make(0, 1, 2, 3);
  return wasm_v128_and(x, wasm_i32x4_lt(lane, wasm_i32x4_splat(static_cast<int32_t>(n))));
}

struct ExactExp {
  RQ_INLINE v128_t Run(const VectorLanes& l, v128_t x) { return transcendental::Exp(l, x); }
};
struct FastExp {
  RQ_INLINE v128_t Run(const VectorLanes& l, v128_t x) { return fast_math::Exp(l, x); }
};

template <typename Exp>
RQ_INLINE void Softmax(const SoftmaxF32Params* p) {
  const size_t n = p->cols;
  if (n == 0) return;
  const VectorLanes l(n);
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    float* out = p->out + r * p->out_row_stride;
    const float row_max = RowMax(in, n);
    if (p->masked_to_zero && row_max == -__builtin_inff()) {
      for (size_t j = 0; j < n; ++j) out[j] = 0;
      continue;
    }
    const v128_t most = Splat(row_max);
    v128_t lanes = Splat(0.0f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      const v128_t e = Exp::Run(l, wasm_f32x4_sub(wasm_v128_load(in + i), most));
      wasm_v128_store(out + i, e);
      lanes = wasm_f32x4_add(lanes, e);
    }
    const int32_t left = static_cast<int32_t>(n - i);
    if (left > 0) {
      const v128_t e = Exp::Run(l, wasm_f32x4_sub(simd::LoadPartial(in + i, left), most));
      simd::StorePartial(out + i, e, left);
      lanes = wasm_f32x4_add(lanes, FirstLanes(e, n - i));
    }
    const v128_t sum = Splat(Reduce(lanes));
    for (i = 0; i + 4 <= n; i += 4) {
      wasm_v128_store(out + i, wasm_f32x4_div(wasm_v128_load(out + i), sum));
    }
    if (left > 0) {
      const v128_t e = simd::LoadPartial(out + i, left);
      simd::StorePartial(out + i, wasm_f32x4_div(e, sum), left);
    }
  }
}

}  // namespace
}  // namespace requant

using namespace requant;

void rq_softmax_f32(const SoftmaxF32Params* p) { Softmax<ExactExp>(p); }
void rq_fast_softmax_f32(const SoftmaxF32Params* p) { Softmax<FastExp>(p); }

void rq_log_softmax_f32(const SoftmaxF32Params* p) {
  const size_t n = p->cols;
  if (n == 0) return;
  const VectorLanes l(n);
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    float* out = p->out + r * p->out_row_stride;
    const v128_t most = Splat(RowMax(in, n));
    v128_t lanes = Splat(0.0f);
    size_t i = 0;
    for (; i + 4 <= n; i += 4) {
      lanes = wasm_f32x4_add(lanes,
                             transcendental::Exp(l, wasm_f32x4_sub(wasm_v128_load(in + i), most)));
    }
    const int32_t left = static_cast<int32_t>(n - i);
    if (left > 0) {
      const v128_t e =
          transcendental::Exp(l, wasm_f32x4_sub(simd::LoadPartial(in + i, left), most));
      lanes = wasm_f32x4_add(lanes, FirstLanes(e, n - i));
    }
    const v128_t log_sum = Splat(softmax::LogOfSum(Reduce(lanes)));
    for (i = 0; i + 4 <= n; i += 4) {
      const v128_t x = wasm_f32x4_sub(wasm_v128_load(in + i), most);
      wasm_v128_store(out + i, wasm_f32x4_sub(x, log_sum));
    }
    if (left > 0) {
      const v128_t x = wasm_f32x4_sub(simd::LoadPartial(in + i, left), most);
      simd::StorePartial(out + i, wasm_f32x4_sub(x, log_sum), left);
    }
  }
}

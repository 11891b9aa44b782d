#pragma once
// Softmax over rows of float32.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"

namespace requant {

/// For each of `rows` rows of `cols` contiguous floats, with m the row's maximum:
///   softmax      exp(x - m) / sum(exp(x - m))
///   fast_softmax the same with Exp of kernels/fast_math.h
///   log_softmax  (x - m) - log(sum(exp(x - m)))
/// exp is otherwise Exp of kernels/transcendental.h. A NaN or +infinity in a row makes the row NaN,
/// like the formula. So does a row of -infinity only, which with `masked_to_zero` gives 0 in
/// softmax and fast_softmax. in == out is allowed when the strides agree.
struct SoftmaxF32Params {
  const float* in = nullptr;
  float* out = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  size_t in_row_stride = 0;  ///< floats
  size_t out_row_stride = 0;
  int32_t masked_to_zero = 0;
};

}  // namespace requant

RQ_KERNEL(rq_softmax_f32) void rq_softmax_f32(const requant::SoftmaxF32Params* params);
RQ_KERNEL(rq_fast_softmax_f32) void rq_fast_softmax_f32(const requant::SoftmaxF32Params* params);
RQ_KERNEL(rq_log_softmax_f32) void rq_log_softmax_f32(const requant::SoftmaxF32Params* params);

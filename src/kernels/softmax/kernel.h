#pragma once
// Softmax over rows of float32.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// For each of `rows` rows of `cols` contiguous floats, with m the row's maximum:
///   softmax      exp(x - m) / sum(exp(x - m))
///   fast_softmax the same formula with Exp of kernels/fast_math.h
///   log_softmax  (x - m) - log(sum(exp(x - m)))
/// softmax and log_softmax use Exp of kernels/transcendental.h. A NaN or +infinity in a row makes
/// the row NaN, as the formula does. A row of only -infinity gives NaN as well, or 0 in softmax and
/// fast_softmax with `masked_to_zero`. in == out is allowed when the strides agree.
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

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, SoftmaxF32Params)
#include "kernels/softmax/softmax_f32.inc"
#undef ROW

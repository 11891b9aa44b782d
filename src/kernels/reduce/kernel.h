#pragma once
// Reductions of float32.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

enum class ReduceF32Op : int32_t { kSum, kL1, kSumSquare, kMax, kMin, kL2 };

/// `in` is [outer, count, inner], out [outer, inner]:
///   out[o, i] = factor * op over c of in[o, c, i],  count >= 1
/// kL2 is the root of the sum of squares. A largest or least element that is a zero is +0. Elements
/// with a NaN give NaN.
struct ReduceF32Params {
  const float* in = nullptr;
  float* out = nullptr;
  size_t outer = 0;
  size_t count = 0;
  size_t inner = 0;
  ReduceF32Op op = ReduceF32Op::kSum;
  float factor = 1;  // only sums have factors other than 1
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, ReduceF32Params)
#include "kernels/reduce/reduce_f32.inc"
#undef ROW

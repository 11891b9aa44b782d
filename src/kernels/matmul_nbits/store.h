#pragma once
// Stores the sums of all rows of the table. Vector code, freestanding.
#include "base/simd.h"
#include "kernels/matmul_nbits/kernel.h"

namespace requant::nbits {

/// Stores eight columns of a row, or as many as the matrix has left.
RQ_INLINE void StoreColumns(const MatMulNBitsParams* p, int32_t row, int32_t column, v128_t y0,
                            v128_t y1) {
  float* out = p->out + static_cast<ptrdiff_t>(row) * p->n + column;
  const int32_t left = p->n - column;
  simd::StorePartial(out, y0, left);
  if (left > 4) simd::StorePartial(out + 4, y1, left - 4);
}

}  // namespace requant::nbits

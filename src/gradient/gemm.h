#pragma once
// Products of matrices for the forward and backward passes of the quantizer and of training.
// Freestanding.
#include <stddef.h>
#include <stdint.h>

namespace requant::gradient {

using Size = ptrdiff_t;

inline constexpr Size kGemmRows = 4;
inline constexpr Size kGemmColumns = 8;
inline constexpr Size kGemmDepth = 256;  // depth of a panel of b: 8 kB

/// Floats that Gemm() needs as scratch for so many rows.
inline int64_t GemmScratch(int64_t rows) {
  const int64_t filled = (rows + kGemmRows - 1) / kGemmRows * kGemmRows;
  return filled * kGemmDepth + kGemmDepth * kGemmColumns + kGemmRows * kGemmColumns;
}

/// c (rows x columns, rows c_step apart) = a (rows x depth) * b (depth x columns), or += with
/// `add`. Element (row, column) of a and b is at row * row_step + column * column_step. The sum of
/// an element is that of panels of 256 products, each added in order and rounded after every
/// multiplication and addition, so that it depends on neither machine nor threads.
void Gemm(Size rows, Size columns, Size depth, const float* a, Size a_row_step, Size a_column_step,
          const float* b, Size b_row_step, Size b_column_step, float* c, Size c_step, bool add,
          float* scratch);

}  // namespace requant::gradient

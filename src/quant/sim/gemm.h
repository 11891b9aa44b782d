#pragma once

#include <cstdint>

namespace requant {

/// A matrix with element (row, column) at data[row * row_step + column * column_step].
struct MatrixView {
  const float* data;
  int64_t row_step;
  int64_t column_step;
};

/// c (rows x columns, row-major, rows c_step apart) = a (rows x depth) * b (depth x columns), or +=
/// with `add`, on one thread (gradient/gemm.h).
void Gemm(int64_t rows, int64_t columns, int64_t depth, const MatrixView& a, const MatrixView& b,
          float* c, int64_t c_step, bool add);

}  // namespace requant

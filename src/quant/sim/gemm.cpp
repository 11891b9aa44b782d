#include "quant/sim/gemm.h"

#include <memory>

#include "gradient/gemm.h"

namespace requant {

void Gemm(int64_t rows, int64_t columns, int64_t depth, const MatrixView& a, const MatrixView& b,
          float* c, int64_t c_step, bool add) {
  using gradient::Size;
  const std::unique_ptr<float[]> scratch(
      new float[static_cast<size_t>(gradient::GemmScratch(rows))]);
  gradient::Gemm(static_cast<Size>(rows), static_cast<Size>(columns), static_cast<Size>(depth),
                 a.data, static_cast<Size>(a.row_step), static_cast<Size>(a.column_step), b.data,
                 static_cast<Size>(b.row_step), static_cast<Size>(b.column_step), c,
                 static_cast<Size>(c_step), add, scratch.get());
}

}  // namespace requant

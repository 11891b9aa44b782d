// Matrix products whose right-hand side is known only when a step runs: packed then, for the float
// kernels of convolutions, by the kernels that move data.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/conv/table.h"
#include "plan/builder.h"
#include "plan/lower/parts.h"

namespace requant {

/// A right-hand side [k, n]: element (i, j) is at i * stride_k + j * stride_n, one of which is 1.
struct ComputedMatrix {
  int64_t k = 0, n = 0;
  int64_t stride_k = 0, stride_n = 0;
};

/// A product [rows, k] x [k, n]; rows are input_stride and output_stride elements apart.
struct ComputedProduct {
  ComputedMatrix matrix;
  ConvF32Params params;  // of all rows, but for pointers
  size_t packed_bytes = 0;
};

/// nullopt when the sizes are beyond the kernels (then nothing but the reference is left).
std::optional<ComputedProduct> PlanProduct(const PlanBuilder& builder, const ConvF32Kernel& kernel,
                                           const ComputedMatrix& matrix, int64_t rows,
                                           int64_t input_stride, int64_t output_stride);

/// packed: packed_bytes, 16-byte aligned.
void PackMatrix(const ConvF32Kernel& kernel, const ComputedMatrix& matrix, const float* data,
                void* packed);

/// Below so many rows a product is faster without packing (MultiplyFew).
inline constexpr int64_t kFewRows = 4;

/// out[rows][n] = a[rows][k] x matrix (+ bias, rows of it bias_stride apart), a row at a time.
struct FewRows {
  ComputedMatrix matrix;
  int64_t rows = 0, a_stride = 0, bias_stride = 0, out_stride = 0;
};
void MultiplyFew(const FewRows& form, const float* a, const float* matrix, const float* bias,
                 float* out);

/// The row of that name.
const ConvF32Kernel& ConvF32KernelOf(const std::string& name);

/// Bytes rounded up so that what follows is aligned, and what kernels read past the end is there.
size_t Padded(size_t bytes);

/// Where the matrices of every product of a and b begin, a_size and b_size elements each.
void PlaceMatrices(const Shape& a, const Shape& b, int64_t a_size, int64_t b_size,
                   std::vector<int64_t>& a_at, std::vector<int64_t>& b_at);

/// How many parameter blocks a step computes at a time.
inline int LanesOf(const RunContext& context, int most) {
  return context.runner() ? std::min(context.runner()->threads(), most) : 1;
}

/// Runs the kernel on every block, at most one for each thread.
template <typename Params>
void RunLanes(const RunContext& context, void (*run)(const Params*), const Params* blocks,
              int count) {
  const int entry = count > 1 ? KernelEntryOf(run) : -1;
  if (entry < 0) {
    for (int i = 0; i < count; ++i) run(blocks + i);
    return;
  }
  const void* pointers[kMaxThreads];
  for (int i = 0; i < count; ++i) pointers[i] = blocks + i;
  context.runner()->Run(entry, pointers, count);
}

}  // namespace requant

// Matrix products whose right-hand side is dynamic. A step packs it when it runs, for the float
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
struct DynamicMatrix {
  int64_t k = 0, n = 0;
  int64_t stride_k = 0, stride_n = 0;
};

/// A product [rows, k] x [k, n]; rows are input_stride and output_stride elements apart.
struct DynamicProduct {
  DynamicMatrix matrix;
  ConvF32Params params;  // for all rows, without pointers
  size_t packed_bytes = 0;
};

/// Plans a product; nullopt when the sizes exceed what the kernels take (then only the reference
/// remains).
std::optional<DynamicProduct> PlanProduct(const PlanBuilder& builder, const ConvF32Kernel& kernel,
                                          const DynamicMatrix& matrix, int64_t rows,
                                          int64_t input_stride, int64_t output_stride);

/// Packs a matrix into packed_bytes bytes at `packed`, 16-byte aligned.
void PackMatrix(const ConvF32Kernel& kernel, const DynamicMatrix& matrix, const float* data,
                void* packed);

/// Below this many rows a product is faster without packing (MultiplyFew).
inline constexpr int64_t kFewRows = 4;

/// out[rows][n] = a[rows][k] x matrix (+ bias, whose rows are bias_stride apart), one row at a
/// time.
struct FewRows {
  DynamicMatrix matrix;
  int64_t rows = 0, a_stride = 0, bias_stride = 0, out_stride = 0;
};
void MultiplyFew(const FewRows& form, const float* a, const float* matrix, const float* bias,
                 float* out);

/// The rows of the tables that have this name.
const ConvF32Kernel& ConvF32KernelOf(const std::string& name);
const ConvQ8Kernel& ConvQ8KernelOf(const std::string& name);

/// Rounds bytes up so that what follows is aligned and kernels may read past the end.
size_t Padded(size_t bytes);

/// Sets where the matrices of every product of a and b begin; they have a_size and b_size elements
/// each.
void PlaceMatrices(const Shape& a, const Shape& b, int64_t a_size, int64_t b_size,
                   std::vector<int64_t>& a_at, std::vector<int64_t>& b_at);

/// How many parameter blocks a step computes at a time: one for each thread, at most `most`.
inline int LanesOf(const RunContext& context, int most) {
  return context.runner() ? std::min(context.runner()->threads(), most) : 1;
}

/// Runs the kernel on `count` blocks, at most one for each thread.
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

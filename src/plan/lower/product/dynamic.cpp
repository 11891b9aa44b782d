#include "plan/lower/product/dynamic.h"

#include <cstring>

#include "base/aligned_buffer.h"
#include "base/checked_math.h"
#include "kernels/conv/blocking.h"
#include "kernels/layout/table.h"
#include "ops/elementwise/elementwise.h"
#include "plan/lower/convolution/window.h"

namespace requant {
namespace {

/// The kernel whose layout the fast path below writes.
constexpr std::string_view kBlocked = "conv_f32_vector";
constexpr int64_t kBlock = conv::kChannelBlock;

ConvF32Weights WeightsOf(const DynamicMatrix& matrix, const float* data) {
  ConvWeightsLayout layout;
  layout.out_c = static_cast<int32_t>(matrix.n);
  layout.in_c_per_group = static_cast<int32_t>(matrix.k);
  layout.stride_o = matrix.stride_n;
  layout.stride_i = matrix.stride_k;
  return {layout, data, nullptr};
}

/// Packs columns [first, first + count) into one block: k rows of kBlock.
void PackRows(const DynamicMatrix& matrix, const float* data, int64_t first, int64_t count,
              float* block) {
  CopyRowsParams copy{};
  copy.in = data + first;
  copy.out = block;
  copy.rows = static_cast<size_t>(matrix.k);
  copy.bytes = static_cast<size_t>(count) * sizeof(float);
  copy.in_row_stride = static_cast<size_t>(matrix.stride_k) * sizeof(float);
  copy.out_row_stride = static_cast<size_t>(kBlock) * sizeof(float);
  CopyRowsKernels().back().run(&copy);
}

/// Packs columns of a transposed matrix into `blocks` blocks, one behind the other.
void PackColumns(const DynamicMatrix& matrix, const float* data, int64_t first, int64_t count,
                 int64_t blocks, float* block) {
  TransposeParams turn{};
  turn.in = data + first * matrix.stride_n;
  turn.out = block;
  turn.batch = static_cast<size_t>(blocks);
  turn.rows = static_cast<size_t>(count);
  turn.cols = static_cast<size_t>(matrix.k);
  turn.in_batch_stride = static_cast<size_t>(kBlock * matrix.stride_n);
  turn.in_row_stride = static_cast<size_t>(matrix.stride_n);
  turn.out_batch_stride = static_cast<size_t>(kBlock * (matrix.k + 1));
  turn.out_row_stride = static_cast<size_t>(kBlock);
  const TransposeKernel* best = nullptr;
  for (const TransposeKernel& row : TransposeKernels()) {
    if (row.element_size == sizeof(float)) best = &row;
  }
  best->run(&turn);
}

}  // namespace

size_t Padded(size_t bytes) {
  return CheckedAlign(CheckedAdd(bytes, kReadAhead), AlignedBuffer::kAlignment);
}

const ConvF32Kernel& ConvF32KernelOf(const std::string& name) {
  const std::span<const ConvF32Kernel> rows = ConvF32Kernels();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&name](const ConvF32Kernel& row) { return name == row.name; });
  return found == rows.end() ? rows.front() : *found;
}

const ConvQ8Kernel& ConvQ8KernelOf(const std::string& name) {
  const std::span<const ConvQ8Kernel> rows = ConvQ8Kernels();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&name](const ConvQ8Kernel& row) { return name == row.name; });
  return found == rows.end() ? rows.front() : *found;
}

std::optional<DynamicProduct> PlanProduct(const PlanBuilder& builder, const ConvF32Kernel& kernel,
                                          const DynamicMatrix& matrix, int64_t rows,
                                          int64_t input_stride, int64_t output_stride) {
  constexpr int64_t kMost = INT32_MAX / 8;
  for (const int64_t size :
       {matrix.k, matrix.n, rows, input_stride, output_stride, matrix.stride_k, matrix.stride_n}) {
    if (size < 1 || size > kMost) return std::nullopt;
  }
  DynamicProduct out;
  out.matrix = matrix;
  ConvGeometry& geometry = out.params.geometry;
  geometry = MatMulGeometry(rows, matrix.k, matrix.n);
  geometry.input_stride = static_cast<int32_t>(input_stride);
  geometry.output_stride = static_cast<int32_t>(output_stride);
  if (!FitsInt32(geometry)) return std::nullopt;
  out.params.row_end = ConvRows(geometry);
  out.params.portable = builder.options().portable ? 1 : 0;
  out.packed_bytes = kernel.packed_size(WeightsOf(matrix, nullptr));
  return out;
}

void PackMatrix(const ConvF32Kernel& kernel, const DynamicMatrix& matrix, const float* data,
                void* packed) {
  if (kernel.name != kBlocked) return kernel.pack_weights(WeightsOf(matrix, data), packed);
  // Blocks of 8 columns: 8 biases, then k rows (kernels/conv/float/tile_f32.h).
  auto* out = static_cast<float*>(packed);
  const int64_t block = kBlock * (matrix.k + 1);
  const int64_t whole = matrix.n / kBlock;
  const int64_t rest = matrix.n % kBlock;
  for (int64_t b = 0; b < whole; ++b) std::memset(out + b * block, 0, kBlock * sizeof(float));
  float* last = out + whole * block;
  if (rest > 0) std::memset(last, 0, static_cast<size_t>(block) * sizeof(float));
  if (matrix.stride_n == 1) {
    for (int64_t b = 0; b < whole; ++b) {
      PackRows(matrix, data, b * kBlock, kBlock, out + b * block + kBlock);
    }
    if (rest > 0) PackRows(matrix, data, whole * kBlock, rest, last + kBlock);
    return;
  }
  if (whole > 0) PackColumns(matrix, data, 0, kBlock, whole, out + kBlock);
  if (rest > 0) PackColumns(matrix, data, whole * kBlock, rest, 1, last + kBlock);
}

void PlaceMatrices(const Shape& a, const Shape& b, int64_t a_size, int64_t b_size,
                   std::vector<int64_t>& a_at, std::vector<int64_t>& b_at) {
  const auto batch_of = [](const Shape& shape) {
    return shape.size() > 2 ? Shape(shape.begin(), shape.end() - 2) : Shape{};
  };
  const Shape batch_a = batch_of(a);
  const Shape batch_b = batch_of(b);
  ForEachRow(PlanRows(BroadcastShapes(batch_a, batch_b), {&batch_a, &batch_b}),
             [&](const RowStep& row) {
               for (int64_t i = 0; i < row.length; ++i) {
                 a_at.push_back((row.input[0] + i * row.step[0]) * a_size);
                 b_at.push_back((row.input[1] + i * row.step[1]) * b_size);
               }
             });
}

}  // namespace requant

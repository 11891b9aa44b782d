// Lowers Softmax and LogSoftmax along an axis that is not the last: blocks of columns become rows
// in a workspace, where the kernel for rows computes them, and columns again.
#include <algorithm>

#include "base/checked_math.h"
#include "kernels/layout/table.h"
#include "kernels/softmax/table.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

/// Floats of a block, which a processor's first caches hold.
constexpr size_t kBlock = 8192;
constexpr size_t kLeastColumns = 16;

const TransposeKernel& TransposeOfFloats() {
  const std::span<const TransposeKernel> rows = TransposeKernels();
  size_t best = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].element_size == 4) best = i;
  }
  return rows[best];
}

/// The softmax over `count` of [outer, count, inner].
class SoftmaxAcrossStep
    : public KernelStep<StepKind::kSoftmaxAcross, SoftmaxF32Kernels, SoftmaxF32Params> {
 public:
  void Fields(PlanArchive& archive) override {
    KernelStep::Fields(archive);
    archive.Fields(outer, count, inner, columns);
  }
  void Run(const RunContext& context) const override {
    const auto* from = context.Read<float>(inputs[0]);
    auto* to = context.Write<float>(outputs[0]);
    auto* block = context.Write<float>(workspace);
    const TransposeKernel& transpose = TransposeOfFloats();
    for (size_t i = 0; i < outer; ++i, from += count * inner, to += count * inner) {
      for (size_t first = 0; first < inner; first += columns) {
        const size_t cols = std::min(columns, inner - first);
        TransposeParams move{};
        move.batch = 1;
        move.in = from + first;
        move.out = block;
        move.rows = count;
        move.cols = cols;
        move.in_row_stride = inner;
        move.out_row_stride = count;
        transpose.run(&move);
        SoftmaxF32Params call = params;
        call.in = call.out = block;
        call.rows = cols;
        run(&call);
        std::swap(move.rows, move.cols);
        std::swap(move.in_row_stride, move.out_row_stride);
        move.in = block;
        move.out = to + first;
        transpose.run(&move);
      }
    }
  }
  size_t outer = 1, count = 1, inner = 1, columns = 1;
};

}  // namespace

bool LowerSoftmaxAcross(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape shape = x->type.StaticShape();
  const auto rank = static_cast<int64_t>(shape.size());
  // Before opset 13 everything from `axis` on is one row, which LowerSoftmax takes.
  if (x->type.dtype != DType::kFloat32 || builder.graph().opset() < 13 || rank == 0 ||
      NumElements(shape) == 0) {
    return false;
  }
  int64_t axis = node.attributes.Int("axis", -1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) return false;
  size_t outer = 1, inner = 1;
  for (int64_t i = 0; i < rank; ++i) {
    const auto size = static_cast<size_t>(shape[static_cast<size_t>(i)]);
    if (i < axis) outer *= size;
    if (i > axis) inner *= size;
  }
  const auto count = static_cast<size_t>(shape[static_cast<size_t>(axis)]);
  const size_t columns = std::min(inner, std::max(kBlock / count, kLeastColumns));
  const SoftmaxOp op = node.Is(Op::kSoftmax) ? SoftmaxOp::kSoftmax : SoftmaxOp::kLogSoftmax;
  const SoftmaxF32Kernel& kernel =
      builder.Choose("softmax_f32", SoftmaxF32Kernels(),
                     [op](const SoftmaxF32Kernel& row) { return row.op == op; });
  const int input = builder.In(x);
  const int output = builder.Out(node.outputs[0]);
  const int workspace = builder.Workspace(CheckedMul(columns, CheckedMul(count, sizeof(float))));
  auto& step = builder.Add<SoftmaxAcrossStep>(node, kernel.name, {input}, {output});
  step.workspace = workspace;
  step.run = kernel.run;
  step.params.cols = step.params.in_row_stride = step.params.out_row_stride = count;
  step.outer = outer;
  step.count = count;
  step.inner = inner;
  step.columns = columns;
  return true;
}

RQ_STEP(SoftmaxAcross, SoftmaxAcrossStep)

}  // namespace requant

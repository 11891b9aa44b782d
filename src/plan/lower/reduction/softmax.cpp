// Lowers Softmax and LogSoftmax along the last axis, and along channels that are last in memory.
#include "kernels/softmax/table.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

using SoftmaxStep = UnaryKernelStep<StepKind::kSoftmax, SoftmaxF32Kernels, SoftmaxF32Params>;

}  // namespace

bool LowerSoftmax(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape shape = x->type.StaticShape();
  const auto rank = static_cast<int64_t>(shape.size());
  if (x->type.dtype != DType::kFloat32 || rank == 0 || NumElements(shape) == 0) return false;
  // Before opset 13 everything from `axis` on is one row (onnx docs/Changelog.md, Softmax-11).
  const bool fast = node.Is(Op::kFastSoftmax);  // always over the last axis
  const bool flattened = builder.graph().opset() < 13 && !fast;
  int64_t axis = node.attributes.Int("axis", flattened ? 1 : -1);
  if (axis < 0) axis += rank;
  int64_t cols = 1;
  for (int64_t i = axis; i < rank; ++i) cols *= shape[static_cast<size_t>(i)];
  const bool last = axis == rank - 1 || cols == shape[static_cast<size_t>(axis)];
  Layout layout = Layout::kPlain;
  if (!flattened && !last) {
    if (axis != 1 || builder.LayoutOf(x) != Layout::kChannelsLast) return false;
    layout = Layout::kChannelsLast;
    cols = shape[1];
  }
  const SoftmaxOp op = fast                    ? SoftmaxOp::kFastSoftmax
                       : node.Is(Op::kSoftmax) ? SoftmaxOp::kSoftmax
                                               : SoftmaxOp::kLogSoftmax;
  const SoftmaxF32Kernel& kernel =
      builder.Choose("softmax_f32", SoftmaxF32Kernels(),
                     [op](const SoftmaxF32Kernel& row) { return row.op == op; });
  const int input = builder.In(x, layout);
  const int output = builder.Out(node.outputs[0], layout);
  auto& step = builder.Add<SoftmaxStep>(node, kernel.name, {input}, {output});
  step.run = kernel.run;
  step.may_overwrite = true;
  step.params.cols = static_cast<size_t>(cols);
  step.params.rows = static_cast<size_t>(NumElements(shape) / cols);
  step.params.in_row_stride = step.params.out_row_stride = step.params.cols;
  const size_t row_bytes = step.params.cols * sizeof(float);
  Divide(builder, step, KernelEntryOf(kernel.run), static_cast<int64_t>(step.params.rows), 1,
         // an exponential takes about eight times as long as a copy
         NumElements(shape) * 8, kElementsPerPart,
         {{PartField::Kind::kCount, offsetof(SoftmaxF32Params, rows), 0},
          {PartField::Kind::kPointer, offsetof(SoftmaxF32Params, in), row_bytes},
          {PartField::Kind::kPointer, offsetof(SoftmaxF32Params, out), row_bytes}});
  return true;
}

RQ_STEP(Softmax, SoftmaxStep)

}  // namespace requant

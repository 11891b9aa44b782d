// Lowers operators that move data without computing on it: layout conversions, Transpose, and
// Reshape and the like, which copy nothing.
#include "plan/lower/move/layout.h"

#include "kernels/layout/table.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/move/physical.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

using TransposeStep = UnaryKernelStep<StepKind::kTranspose, TransposeKernels, TransposeParams>;

class CopyStep : public StepOf<StepKind::kCopy> {
 public:
  void Fields(PlanArchive& archive) override { archive.Fields(params); }
  void Run(const RunContext& context) const override {
    StridedCopyParams call = params;
    call.in = context.Read(inputs[0]);
    call.out = context.Write(outputs[0]);
    StridedCopy(&call);
  }
  StridedCopyParams params{};
};

}  // namespace

void AddLayoutStep(PlanBuilder& builder, const Value& value, int from, int to, Layout layout) {
  const Slot source = builder.slot(from);
  const ImageDims dims = ImageOf(source.shape);
  const auto channels = static_cast<size_t>(dims.channels);
  const auto pixels = static_cast<size_t>(dims.height * dims.width);
  const int element = DTypeBits(source.dtype) / 8;
  Node named;  // a conversion has no node of its own
  named.name = value.name;
  named.op_type = layout == Layout::kChannelsLast ? "ToChannelsLast" : "ToChannelsFirst";
  if (element != 1 && element != 4) {
    auto& step = builder.Add<CopyStep>(named, "strided_copy", {from}, {to});
    step.params = CopyBetween(source.dtype, source.shape, source.layout, layout);
    return;
  }
  const TransposeKernel& kernel =
      builder.Choose("transpose", TransposeKernels(),
                     [element](const TransposeKernel& row) { return row.element_size == element; });
  auto& step = builder.Add<TransposeStep>(named, kernel.name, {from}, {to});
  step.run = kernel.run;
  const bool to_last = layout == Layout::kChannelsLast;
  step.params.batch = static_cast<size_t>(dims.batch);
  step.params.rows = to_last ? channels : pixels;
  step.params.cols = to_last ? pixels : channels;
  step.params.in_batch_stride = step.params.out_batch_stride = channels * pixels;
  step.params.in_row_stride = step.params.cols;
  step.params.out_row_stride = step.params.rows;
  // The matrix is divided along its longer side.
  using enum PartField::Kind;
  const auto bytes = static_cast<size_t>(element);
  const bool by_columns = step.params.cols > step.params.rows;
  const size_t total = by_columns ? step.params.cols : step.params.rows;
  const size_t in = by_columns ? 1 : step.params.in_row_stride;
  const size_t out = by_columns ? step.params.out_row_stride : 1;
  const size_t count =
      by_columns ? offsetof(TransposeParams, cols) : offsetof(TransposeParams, rows);
  Divide(builder, step, KernelEntryOf(kernel.run), static_cast<int64_t>(total), kElementTile,
         NumElements(source.shape), kElementsPerPart,
         {{kCount, count, 0},
          {kPointer, offsetof(TransposeParams, in), in * bytes},
          {kPointer, offsetof(TransposeParams, out), out * bytes}});
}

bool LowerAlias(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  if (node.output(1)) return false;  // Dropout's mask is read
  // The reference checks a dynamic shape against what the file says.
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    if (node.input(slot) && node.constant(slot) == nullptr) return false;
  }
  builder.KeepRange(x, node.outputs[0]);
  const bool same_shape = x->type.StaticShape() == node.outputs[0]->type.StaticShape();
  const Layout layout = same_shape ? builder.LayoutOf(x) : Layout::kPlain;
  builder.Alias(node.outputs[0], builder.In(x, layout), layout);
  return true;
}

bool LowerTranspose(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Value* y = node.outputs[0];
  const Shape shape = x->type.StaticShape();
  const size_t rank = shape.size();
  builder.KeepRange(x, y);
  std::vector<int64_t> perm = node.attributes.Ints("perm");
  if (perm.empty()) {
    for (size_t i = rank; i-- > 0;) perm.push_back(static_cast<int64_t>(i));
  }
  if (rank == 4 && perm == std::vector<int64_t>{0, 3, 1, 2}) {
    builder.Alias(y, builder.In(x), Layout::kChannelsLast);
    return true;
  }
  if (rank == 4 && perm == std::vector<int64_t>{0, 2, 3, 1}) {
    builder.Alias(y, builder.In(x, Layout::kChannelsLast), Layout::kPlain);
    return true;
  }
  if (rank > kMaxCopyRank || DTypeBits(x->type.dtype) < 8) return false;
  const int input = builder.In(x);
  const int output = builder.Out(y);
  auto& step = builder.Add<CopyStep>(node, "strided_copy", {input}, {output});
  const std::vector<ptrdiff_t> from = PhysicalStrides(shape, Layout::kPlain);
  const std::vector<ptrdiff_t> to = PhysicalStrides(y->type.StaticShape(), Layout::kPlain);
  step.params.element_size = static_cast<size_t>(DTypeBits(x->type.dtype) / 8);
  step.params.rank = static_cast<int32_t>(rank);
  for (size_t i = 0; i < rank; ++i) {
    const auto axis = static_cast<size_t>(perm[i]);
    step.params.dims[i] = static_cast<size_t>(shape[axis]);
    step.params.in_strides[i] = from[axis];
    step.params.out_strides[i] = to[i];
  }
  return true;
}

RQ_STEP(Transpose, TransposeStep)
RQ_STEP(Copy, CopyStep)

}  // namespace requant

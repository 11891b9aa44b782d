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

void AddTransposeStep(PlanBuilder& builder, const Node& node, int from, int to, size_t batch,
                      size_t rows, size_t cols) {
  const int element = DTypeBits(builder.slot(from).dtype) / 8;
  const TransposeKernel& kernel =
      builder.Choose("transpose", TransposeKernels(),
                     [element](const TransposeKernel& row) { return row.element_size == element; });
  auto& step = builder.Add<TransposeStep>(node, kernel.name, {from}, {to});
  step.run = kernel.run;
  step.params.batch = batch;
  step.params.rows = rows;
  step.params.cols = cols;
  step.params.in_batch_stride = step.params.out_batch_stride = rows * cols;
  step.params.in_row_stride = cols;
  step.params.out_row_stride = rows;
  // The matrix is divided along its longer side.
  using enum PartField::Kind;
  const auto bytes = static_cast<size_t>(element);
  const bool by_columns = cols > rows;
  const size_t total = by_columns ? cols : rows;
  const size_t in = by_columns ? 1 : step.params.in_row_stride;
  const size_t out = by_columns ? step.params.out_row_stride : 1;
  const size_t count =
      by_columns ? offsetof(TransposeParams, cols) : offsetof(TransposeParams, rows);
  Divide(builder, step, KernelEntryOf(kernel.run), static_cast<int64_t>(total), kElementTile,
         static_cast<int64_t>(batch * rows * cols), kElementsPerPart,
         {{kCount, count, 0},
          {kPointer, offsetof(TransposeParams, in), in * bytes},
          {kPointer, offsetof(TransposeParams, out), out * bytes}});
}

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
  const bool to_last = layout == Layout::kChannelsLast;
  AddTransposeStep(builder, named, from, to, static_cast<size_t>(dims.batch),
                   to_last ? channels : pixels, to_last ? pixels : channels);
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

namespace {

/// A Transpose of the last two axes, once axes of one element are left out and those that stay
/// neighbors are one; `batch` is 0 for any other.
struct MatrixTransposition {
  size_t batch, rows, cols;
};
MatrixTransposition AsMatrices(const Shape& shape, const std::vector<int64_t>& perm) {
  int64_t first[3] = {}, sizes[3] = {};  // of the runs of axes that are left, in the output's order
  size_t runs = 0;
  int64_t next = -1;  // the axis that would continue the run
  for (const int64_t axis : perm) {
    const int64_t size = shape[static_cast<size_t>(axis)];
    if (size == 1) continue;
    while (next >= 0 && next < axis && shape[static_cast<size_t>(next)] == 1) ++next;
    if (next != axis) {
      if (runs == 3) return {};
      first[runs] = axis;
      sizes[runs++] = 1;
    }
    sizes[runs - 1] *= size;
    next = axis + 1;
  }
  const size_t last = runs - 1;
  if (runs < 2 || first[last] > first[last - 1] || (runs == 3 && first[0] > first[2])) return {};
  return {static_cast<size_t>(runs == 3 ? sizes[0] : 1), static_cast<size_t>(sizes[last]),
          static_cast<size_t>(sizes[last - 1])};
}

}  // namespace

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
  const int bits = DTypeBits(x->type.dtype);
  const auto [batch, rows, cols] = AsMatrices(shape, perm);
  if (batch > 0 && (bits == 8 || bits == 32)) {
    AddTransposeStep(builder, node, input, output, batch, rows, cols);
    return true;
  }
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

// Lowers float32 reductions over adjacent axes.
#include <algorithm>
#include <optional>

#include "kernels/reduce/table.h"
#include "plan/lower/kernel_step.h"
#include "plan/lower/parts.h"
#include "plan/lower/rows.h"
#include "plan/lower/steps.h"

namespace requant {
namespace {

using ReduceStep = UnaryKernelStep<StepKind::kReduce, ReduceF32Kernels, ReduceF32Params>;

struct ReduceName {
  const char* op;
  ReduceF32Op kernel;
};
constexpr ReduceName kNames[] = {
    {"ReduceSum", ReduceF32Op::kSum}, {"ReduceMean", ReduceF32Op::kSum},
    {"ReduceL1", ReduceF32Op::kL1},   {"ReduceSumSquare", ReduceF32Op::kSumSquare},
    {"ReduceMax", ReduceF32Op::kMax}, {"ReduceMin", ReduceF32Op::kMin},
    {"ReduceL2", ReduceF32Op::kL2}};

/// The reduced axes, first and one past the last, which must be adjacent.
struct Axes {
  size_t begin, end;
};
std::optional<Axes> ReducedAxes(const Node& node, size_t rank) {
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  if (node.input(1)) {
    if (node.constant(1) == nullptr) return std::nullopt;
    axes = node.constant(1)->ToInts();
  }
  if (axes.empty()) {
    if (node.attributes.Int("noop_with_empty_axes", 0) != 0 || rank == 0) return std::nullopt;
    return Axes{0, rank};
  }
  for (int64_t& axis : axes) axis += axis < 0 ? static_cast<int64_t>(rank) : 0;
  std::sort(axes.begin(), axes.end());
  for (size_t i = 1; i < axes.size(); ++i) {
    if (axes[i] != axes[i - 1] + 1) return std::nullopt;
  }
  return Axes{static_cast<size_t>(axes.front()), static_cast<size_t>(axes.back()) + 1};
}

int64_t Product(const Shape& shape, size_t begin, size_t end) {
  int64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= shape[i];
  return product;
}

}  // namespace

bool LowerReduce(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape shape = x->type.StaticShape();
  if (x->type.dtype != DType::kFloat32 || NumElements(shape) == 0) return false;
  const auto axes = ReducedAxes(node, shape.size());
  const auto* name = std::find_if(std::begin(kNames), std::end(kNames),
                                  [&](const ReduceName& row) { return node.op_type == row.op; });
  if (!axes || name == std::end(kNames)) return false;
  int64_t outer = Product(shape, 0, axes->begin);
  int64_t count = Product(shape, axes->begin, axes->end);
  int64_t inner = Product(shape, axes->end, shape.size());
  const float factor = node.Is(Op::kReduceMean) ? 1.0F / static_cast<float>(count) : 1.0F;
  // Channels-last keeps the elements of the channels, or of all pixels, adjacent as well.
  Layout layout = Layout::kPlain;
  if (builder.LayoutOf(x) == Layout::kChannelsLast) {
    const bool channels = axes->begin == 1 && axes->end == 2;
    const bool pixels = axes->begin == 2 && axes->end == shape.size();
    if (channels || pixels) {
      layout = Layout::kChannelsLast;
      outer = channels ? outer * inner : shape[0];
      inner = channels ? 1 : shape[1];
    }
  }
  const ReduceF32Kernel& kernel = builder.Choose("reduce_f32", ReduceF32Kernels());
  const int from = builder.In(x, layout);
  auto& step = builder.Add<ReduceStep>(node, kernel.name, {from}, {builder.Out(node.outputs[0])});
  step.run = kernel.run;
  step.params.outer = static_cast<size_t>(outer);
  step.params.count = static_cast<size_t>(count);
  step.params.inner = static_cast<size_t>(inner);
  step.params.op = name->kernel;
  step.params.factor = factor;
  const size_t bytes = step.params.inner * sizeof(float);
  Divide(builder, step, KernelEntryOf(kernel.run), outer, 1, outer * count * inner,
         kElementsPerPart,
         {{PartField::Kind::kCount, offsetof(ReduceF32Params, outer), 0},
          {PartField::Kind::kPointer, offsetof(ReduceF32Params, in), step.params.count * bytes},
          {PartField::Kind::kPointer, offsetof(ReduceF32Params, out), bytes}});
  return true;
}

RQ_STEP(Reduce, ReduceStep)

}  // namespace requant

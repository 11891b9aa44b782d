// ReduceSum and ReduceMean over the last axes: products with a column of ones, or of 1 / n.
#include <algorithm>

#include "plan/lower/rows.h"

namespace requant {
namespace {

/// How many elements of the last axes make one result; 0 for reductions of another form.
int64_t ReducedColumns(const Node& node, const Shape& shape) {
  const auto rank = static_cast<int64_t>(shape.size());
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  if (node.input(1)) {
    if (node.constant(1) == nullptr) return 0;
    axes = node.constant(1)->ToInts();
  }
  int64_t columns = 1;
  for (int64_t i = 0; i < static_cast<int64_t>(axes.size()); ++i) {
    const int64_t axis = rank - 1 - i;
    const bool listed = std::any_of(axes.begin(), axes.end(), [&](int64_t given) {
      return (given < 0 ? given + rank : given) == axis;
    });
    if (!listed) return 0;
    columns *= shape[static_cast<size_t>(axis)];
  }
  return axes.empty() ? 0 : columns;
}

}  // namespace

bool LowerReduce(PlanBuilder& builder, const Node& node) {
  const Value* x = node.inputs[0];
  const Shape shape = x->type.StaticShape();
  const int64_t count = NumElements(shape);
  if (x->type.dtype != DType::kFloat32 || count == 0) return false;
  const int64_t columns = ReducedColumns(node, shape);
  if (columns < 2) return false;
  const ConvGeometry geometry = MatMulGeometry(count / columns, columns, 1);
  if (columns > INT32_MAX / 8 || count / columns > INT32_MAX / 8 || !FitsInt32(geometry)) {
    return false;
  }
  const float factor = node.Is("ReduceMean") ? 1.0F / static_cast<float>(columns) : 1.0F;
  ConvWeightsLayout layout;  // one number for all
  layout.out_c = 1;
  layout.in_c_per_group = static_cast<int32_t>(columns);
  AddConvF32Step(builder, node, geometry, {layout, &factor, nullptr}, Layout::kPlain,
                 builder.In(x));
  return true;
}

}  // namespace requant

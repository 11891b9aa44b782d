#include "ops/shape/concat.h"

#include <cstring>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"

namespace requant {

std::optional<SymbolicShape> ConcatShape(const InferContext& context, size_t first, size_t step) {
  const std::string& op = context.node.op_type;
  std::optional<SymbolicShape> shape;
  size_t axis = 0;
  Dim total = 0;
  for (size_t slot = first; slot < context.inputs.size(); slot += step) {
    const SymbolicShape* input = context.shape(slot);
    if (input == nullptr) {
      total = Dim();
      continue;
    }
    axis = static_cast<size_t>(
        NormalizeAxis(context.attributes().Int("axis", 1), static_cast<int64_t>(input->size())));
    if (!shape) shape = SymbolicShape(input->size());
    if (shape->size() != input->size()) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat(op, " of tensors with ", shape->size(), " and ", input->size(), " dimensions"));
    }
    for (size_t i = 0; i < input->size(); ++i) {
      if (i == axis) continue;
      (*shape)[i] =
          MergeDims((*shape)[i], (*input)[i], StrCat("the inputs of ", op, " at dimension ", i));
    }
    const Dim& dim = (*input)[axis];
    const bool known = total.known() && dim.known();
    const bool alone = context.inputs.size() <= first + step;
    total = alone ? dim : known ? Dim(CheckedAdd64(total.value, dim.value)) : Dim();
  }
  if (shape) (*shape)[axis] = total;
  return shape;
}

Tensor Concatenate(const Node& node, std::span<const Tensor* const> parts) {
  const Tensor& first = *parts[0];
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", 1), first.rank());
  Shape shape = first.shape();
  int64_t& total = shape[static_cast<size_t>(axis)];
  for (const Tensor* part : parts.subspan(1)) {
    bool fits = part->dtype() == first.dtype() && part->rank() == first.rank();
    for (int64_t i = 0; fits && i < first.rank(); ++i) {
      fits = i == axis || part->dim(i) == first.dim(i);
    }
    if (!fits) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat(node.op_type, " along axis ", axis, " of ", TypeToString(TypeOf(first)), " and ",
                  TypeToString(TypeOf(*part))));
    }
    total = CheckedAdd64(total, part->dim(axis));
  }
  const size_t element = ElementBytes(first.dtype());
  Tensor out(first.dtype(), shape);
  auto* to = static_cast<uint8_t*>(out.raw());
  const int64_t outer = NumElements(Shape(shape.begin(), shape.begin() + axis));
  for (int64_t row = 0; row < outer; ++row) {
    for (const Tensor* part : parts) {
      const size_t bytes = static_cast<size_t>(part->count() / outer) * element;
      if (bytes == 0) continue;
      std::memcpy(to, static_cast<const uint8_t*>(part->raw()) + static_cast<size_t>(row) * bytes,
                  bytes);
      to += bytes;
    }
  }
  return out;
}

}  // namespace requant

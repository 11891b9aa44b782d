// Gather: slices picked by another tensor (onnx docs/Operators.md).
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferGather(InferContext& context) {
  RequireDType(context, 1, {DType::kInt32, DType::kInt64});
  RequireMinRank(context, 0, 1);
  std::optional<SymbolicShape> shape;
  const SymbolicShape* input = context.shape(0);
  const SymbolicShape* indices = context.shape(1);
  if (input != nullptr) {
    const int64_t axis =
        NormalizeAxis(context.attributes().Int("axis", 0), static_cast<int64_t>(input->size()));
    const Dim& dim = (*input)[static_cast<size_t>(axis)];
    if (const Tensor* constant = context.constant(1); constant != nullptr && dim.known()) {
      for (const int64_t index : constant->ToInts()) ResolveIndex(index, dim.value, "Gather");
    }
    if (indices != nullptr) {
      shape = SymbolicShape(input->begin(), input->begin() + axis);
      shape->insert(shape->end(), indices->begin(), indices->end());
      shape->insert(shape->end(), input->begin() + axis + 1, input->end());
    }
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateGather(EvalContext& context) {
  const Tensor& input = context.input(0);
  const Tensor& indices = context.input(1);
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", 0), input.rank());
  std::vector<std::vector<int64_t>> picked;
  for (const int64_t dim : input.shape()) picked.push_back(Sequence(dim));
  std::vector<int64_t>& list = picked[static_cast<size_t>(axis)];
  list = indices.ToInts();
  for (int64_t& index : list) index = ResolveIndex(index, input.dim(axis), "Gather");
  Shape shape(input.shape().begin(), input.shape().begin() + axis);
  shape.insert(shape.end(), indices.shape().begin(), indices.shape().end());
  shape.insert(shape.end(), input.shape().begin() + axis + 1, input.shape().end());
  context.outputs[0] = SelectByAxis(input, picked).Reshaped(shape);
}

constexpr OpDef kRows[] = {
    {"Gather", "", 1, 2, 2, 1, InferGather, EvaluateGather, QuantRule::kPassive,
     FusionRule::kInjective},
};

}  // namespace

std::span<const OpDef> GatherOps() { return kRows; }

}  // namespace requant

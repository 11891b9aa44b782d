// If (onnx docs/Operators.md).
#include <optional>
#include <vector>

#include "base/error.h"
#include "ops/control/body.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferIf(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  const Graph& yes = BodyOf(context.node, "then_branch");
  const Graph& no = BodyOf(context.node, "else_branch");
  for (const Graph* body : {&yes, &no}) {
    CheckBody(context.node, *body, 0, body->outputs().size());
    if (body->outputs().size() < context.outputs.size()) {
      Fail(ErrorCode::kInvalidModel, "a branch of If has too few outputs");
    }
  }
  // A branch that cannot run with these shapes is never taken with them, so nothing follows from
  // it.
  std::optional<std::vector<ValueType>> types[2];
  std::optional<Error> error;
  for (const size_t i : {0, 1}) {
    try {
      types[i] = InferBody(context, i == 0 ? yes : no, {});
    } catch (const Error& thrown) {
      if (thrown.code() != ErrorCode::kShapeMismatch && thrown.code() != ErrorCode::kInvalidModel) {
        throw;
      }
      error = thrown;
    }
  }
  if (!types[0] && !types[1]) throw *error;
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    if (!types[0] || !types[1]) {
      context.outputs[i].dtype = (types[0] ? *types[0] : *types[1])[i].dtype;
      continue;
    }
    const ValueType& a = (*types[0])[i];
    const ValueType& b = (*types[1])[i];
    context.outputs[i] = {a.dtype == b.dtype ? a.dtype : DType::kUndefined,
                          CommonShape(a.shape, b.shape)};
  }
}

void EvaluateIf(EvalContext& context) {
  const bool taken = ConditionOf(context.input(0));
  const Graph& body = BodyOf(context.node, taken ? "then_branch" : "else_branch");
  CheckBody(context.node, body, 0, body.outputs().size());
  std::vector<Tensor> results = RunBody(context, body, {});
  if (results.size() < context.outputs.size()) {
    Fail(ErrorCode::kInvalidModel, "a branch of If has too few outputs");
  }
  results.resize(context.outputs.size());
  context.outputs = std::move(results);
}

constexpr OpDef kRows[] = {
    {"If", "", 1, 1, kVariadic, kVariadic, InferIf, EvaluateIf, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> IfOps() { return kRows; }

}  // namespace requant

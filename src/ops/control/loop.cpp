// Loop (onnx docs/Operators.md).
//   inputs: trip count, condition, carried...
//   body:   iteration, condition, carried -> condition, carried, scanned
#include <algorithm>
#include <limits>
#include <optional>
#include <vector>

#include "base/error.h"
#include "ops/control/body.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

/// Whether both shapes know the same; unknown sizes must be unknown in both.
bool SameKnowledge(const std::optional<SymbolicShape>& a, const std::optional<SymbolicShape>& b) {
  if (!a || !b) return a.has_value() == b.has_value();
  return a->size() == b->size() &&
         std::equal(a->begin(), a->end(), b->begin(), [](const Dim& x, const Dim& y) {
           return x.known() == y.known() && x.symbol == y.symbol &&
                  (!x.known() || x.value == y.value);
         });
}

struct LoopForm {
  const Graph& body;
  size_t carried, scanned;
};

LoopForm FormOfLoop(const Node& node) {
  const Graph& body = BodyOf(node, "body");
  const size_t formal = node.formal_inputs();
  const size_t carried = formal > 2 ? formal - 2 : 0;
  const size_t outputs = body.outputs().size();
  const size_t scanned = outputs > carried ? outputs - carried - 1 : 0;
  CheckBody(node, body, carried + 2, carried + scanned + 1);
  if (node.outputs.size() > carried + scanned) {
    Fail(ErrorCode::kInvalidModel, "Loop has more outputs than its body", {.node = node.name});
  }
  return {body, carried, scanned};
}

void InferLoop(InferContext& context) {
  RequireDType(context, 0, {DType::kInt64, DType::kInt32});
  RequireDType(context, 1, {DType::kBool});
  const LoopForm form = FormOfLoop(context.node);
  // A carried value may change its shape from one iteration to the next.
  std::vector<ValueType> types = {{DType::kInt64, SymbolicShape{}},
                                  {DType::kBool, SymbolicShape{}}};
  for (size_t i = 0; i < form.carried; ++i) {
    types.push_back({context.inputs[2 + i].dtype, context.inputs[2 + i].shape});
  }
  std::vector<ValueType> results;
  for (bool stable = false; !stable;) {  // each round knows less than the one before
    results = InferBody(context, form.body, types);
    stable = true;
    for (size_t i = 0; i < form.carried; ++i) {
      ValueType& type = types[2 + i];
      std::optional<SymbolicShape> common = CommonShape(type.shape, results[1 + i].shape);
      stable = stable && SameKnowledge(common, type.shape);
      type.shape = std::move(common);
      if (type.dtype == DType::kUndefined) type.dtype = results[1 + i].dtype;
    }
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    ValueType type = results[1 + i];
    if (i < form.carried) {
      // An optional value may be carried first and what it holds later.
      const bool contained = static_cast<uint8_t>(type.dtype) >= kOptionalBit;
      const DType last = contained ? type.dtype : types[2 + i].dtype;
      type = {last, types[2 + i].shape};
    } else if (type.shape) {
      type.shape->insert(type.shape->begin(), Dim());
    }
    context.outputs[i] = std::move(type);
  }
}

void EvaluateLoop(EvalContext& context) {
  const LoopForm form = FormOfLoop(context.node);
  const int64_t trips = context.has(0) && context.node.formal_inputs() > 0
                            ? (context.input(0).count() == 1 ? context.input(0).AsInt64(0) : 0)
                            : std::numeric_limits<int64_t>::max();
  bool going = context.node.formal_inputs() < 2 || !context.has(1) || ConditionOf(context.input(1));
  std::vector<Tensor> carried;
  for (size_t i = 0; i < form.carried; ++i) carried.push_back(context.input(2 + i));
  std::vector<Stack> stacks(form.scanned, Stack(std::min<int64_t>(trips, 1 << 20)));
  for (int64_t i = 0; i < trips && going; ++i) {
    const Tensor iteration = Tensor::Scalar(i);
    const Tensor condition = Tensor::Scalar(true);
    std::vector<const Tensor*> inputs = {&iteration, &condition};
    for (const Tensor& tensor : carried) inputs.push_back(&tensor);
    std::vector<Tensor> results = RunBody(context, form.body, std::move(inputs));
    going = ConditionOf(results[0]);
    for (size_t k = 0; k < form.carried; ++k) carried[k] = std::move(results[1 + k]);
    for (size_t k = 0; k < form.scanned; ++k) stacks[k].Add(results[1 + form.carried + k]);
  }
  std::vector<ValueType> types(form.body.outputs().size());
  if (!stacks.empty() && stacks[0].empty()) {
    std::vector<ValueType> formal = {{DType::kInt64, SymbolicShape{}},
                                     {DType::kBool, SymbolicShape{}}};
    for (const Tensor& tensor : carried) formal.push_back(TypeOf(tensor));
    types = TypesOfNone(context, form.body, std::move(formal));
  }
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    context.outputs[i] =
        i < form.carried ? carried[i] : stacks[i - form.carried].Finish(false, types[1 + i]);
  }
}

constexpr OpDef kRows[] = {
    {"Loop", "", 1, 0, kVariadic, kVariadic, InferLoop, EvaluateLoop, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> LoopOps() { return kRows; }

}  // namespace requant

#include "ops/control/subgraph.h"

#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

std::vector<Tensor> EvaluateGraph(const Graph& graph, KnownValues known, RequantizeMode requantize,
                                  const ValueObserver& observe) {
  const auto lookup = [&known](const Value* value) -> const Tensor* {
    if (value == nullptr) return nullptr;
    const auto found = known.find(value);
    if (found != known.end()) return &found->second;
    return value->is_constant() ? &value->constant : nullptr;
  };
  // Counts the reads still to come, so that intermediates are freed early.
  graph.Renumber();
  std::vector<size_t> reads;
  for (const auto& value : graph.values()) reads.push_back(value->consumers.size());
  for (const Value* output : graph.outputs()) ++reads[output->position];

  std::vector<const Tensor*> operands;
  for (const auto& node : graph.nodes()) {
    operands.clear();
    for (const Value* input : node->inputs) operands.push_back(lookup(input));
    std::vector<Tensor> outputs = EvaluateNode(graph, *node, operands, requantize);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Value* value = node->outputs[i];
      if (value == nullptr) continue;
      if (observe) observe(*value, outputs[i]);
      known[value] = std::move(outputs[i]);
    }
    for (const Value* input : node->inputs) {
      if (input && --reads[input->position] == 0) known.erase(input);
    }
  }
  std::vector<Tensor> results;
  for (const Value* output : graph.outputs()) {
    const Tensor* tensor = lookup(output);
    if (tensor == nullptr) {
      Fail(ErrorCode::kInvalidModel, StrCat("output '", output->name, "' is never computed"),
           {.value = output->name});
    }
    results.push_back(*tensor);
  }
  return results;
}

std::vector<Tensor> EvaluateGraph(const Graph& graph, std::span<const Tensor* const> inputs,
                                  RequantizeMode requantize) {
  KnownValues known;
  size_t next = 0;
  for (const Value* input : graph.inputs()) {
    if (!input->is_constant()) known[input] = *inputs[next++];
  }
  return EvaluateGraph(graph, std::move(known), requantize);
}

std::vector<ValueType> InferGraph(const Graph& graph, std::span<const ValueType> inputs) {
  Graph copy = graph.Clone();
  for (size_t i = 0; i < copy.inputs().size() && i < inputs.size(); ++i) {
    ValueType& type = copy.inputs()[i]->type;
    if (copy.inputs()[i]->is_constant()) continue;
    if (inputs[i].dtype != DType::kUndefined) type.dtype = inputs[i].dtype;
    type.shape = inputs[i].shape;
  }
  for (const auto& node : copy.nodes()) {
    std::vector<ValueType> types = InferNode(copy, *node);
    for (size_t i = 0; i < types.size(); ++i) {
      if (Value* output = node->outputs[i]; output && types[i].dtype != DType::kUndefined) {
        if (!types[i].shape) types[i].shape = output->type.shape;
        output->type = std::move(types[i]);
      }
    }
  }
  std::vector<ValueType> out;
  for (const Value* output : copy.outputs()) out.push_back(output->type);
  return out;
}

namespace {

/// The body with its captured constants made its own; nullptr when it captures none.
std::shared_ptr<Graph> WithConstants(const Graph& body, std::span<Value* const> captured,
                                     std::vector<bool>& gone) {
  const size_t first = body.inputs().size() - body.captured;
  bool any = false;
  for (const Value* value : captured) any = any || (value && value->is_constant());
  auto copy = std::make_shared<Graph>(body.Clone());
  for (size_t i = captured.size(); i-- > 0;) {
    const bool sinks = captured[i] && captured[i]->is_constant();
    gone[i] = sinks;
    if (!sinks) continue;
    Value* input = copy->inputs()[first + i];
    copy->RemoveInput(input);
    --copy->captured;
    copy->MakeConstant(input, captured[i]->constant);
  }
  const bool deeper = SinkConstants(*copy);
  return any || deeper ? copy : nullptr;
}

}  // namespace

bool SinkConstants(Graph& graph) {
  bool changed = false;
  for (const auto& owned : graph.nodes()) {
    Node* node = owned.get();
    if (!node->has_subgraph()) continue;
    size_t next = node->formal_inputs();
    std::vector<AttributeMap::Entry> replaced;
    std::vector<size_t> dropped;
    for (const auto& [name, value] : node->attributes.entries()) {
      const auto* body = std::get_if<Subgraph>(&value);
      if (body == nullptr) continue;
      const std::span<Value* const> captured(node->inputs.data() + next, (*body)->captured);
      std::vector<bool> gone(captured.size());
      if (auto made = WithConstants(**body, captured, gone)) {
        replaced.emplace_back(name, Subgraph(std::move(made)));
        for (size_t i = 0; i < gone.size(); ++i) {
          if (gone[i]) dropped.push_back(next + i);
        }
      }
      next += captured.size();
    }
    if (replaced.empty()) continue;
    changed = true;
    for (auto& [name, value] : replaced) node->attributes.Set(name, std::move(value));
    for (size_t i = dropped.size(); i-- > 0;) graph.RemoveNodeInput(node, dropped[i]);
  }
  if (changed) graph.RemoveUnusedValues();
  return changed;
}

}  // namespace requant

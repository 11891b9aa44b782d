#include "interpret/interpreter.h"

#include <map>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

void CheckFeed(const Value& input, const Tensor& feed, std::map<std::string, int64_t>& symbols) {
  const ValueType& type = input.type;
  if (type.dtype != DType::kUndefined && feed.dtype() != type.dtype) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat("input '", input.name, "' takes ", DTypeName(type.dtype), ", not ",
                DTypeName(feed.dtype())),
         {.value = input.name, .hint = "convert the tensor before feeding it"});
  }
  if (!type.shape) return;
  bool fits = type.shape->size() == feed.shape().size();
  for (size_t i = 0; fits && i < feed.shape().size(); ++i) {
    const Dim& dim = (*type.shape)[i];
    const int64_t size = feed.shape()[i];
    if (dim.known()) {
      fits = dim.value == size;
    } else if (!dim.symbol.empty()) {
      fits = symbols.emplace(dim.symbol, size).first->second == size;
    }
  }
  if (!fits) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("input '", input.name, "' takes ", TypeToString(type), ", not ",
                ShapeToString(feed.shape())),
         {.value = input.name, .hint = "reshape the tensor to the model's input shape"});
  }
}

std::vector<Tensor> Interpret(const Graph& graph, const TensorMap& feeds,
                              const InterpretOptions& options) {
  std::map<const Value*, Tensor> known;
  std::map<std::string, int64_t> symbols;
  for (const Value* input : graph.inputs()) {
    const auto feed = feeds.find(input->name);
    if (feed == feeds.end()) {
      if (input->is_constant()) continue;
      Fail(ErrorCode::kInvalidArgument, StrCat("input '", input->name, "' is not fed"),
           {.value = input->name, .hint = "pass a tensor for every input name"});
    }
    CheckFeed(*input, feed->second, symbols);
    known[input] = feed->second;
  }
  for (const auto& [name, tensor] : feeds) {
    const Value* value = graph.FindValue(name);
    if (value == nullptr || !graph.IsInput(value)) {
      Fail(ErrorCode::kInvalidArgument, StrCat("the model has no input '", name, "'"),
           {.value = name, .hint = "see inputNames"});
    }
  }
  const auto lookup = [&](const Value* value) -> const Tensor* {
    if (value == nullptr) return nullptr;
    const auto found = known.find(value);
    if (found != known.end()) return &found->second;
    return value->is_constant() ? &value->constant : nullptr;
  };
  // How many reads are still to come, so that intermediates are freed early.
  std::map<const Value*, size_t> reads;
  for (const auto& value : graph.values()) reads[value.get()] = value->consumers.size();
  for (const Value* output : graph.outputs()) ++reads[output];

  for (const auto& node : graph.nodes()) {
    std::vector<const Tensor*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(lookup(input));
    std::vector<Tensor> outputs = EvaluateNode(graph, *node, inputs, options.requantize);
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Value* value = node->outputs[i];
      if (value == nullptr) continue;
      if (options.observe) options.observe(*value, outputs[i]);
      known[value] = std::move(outputs[i]);
    }
    for (const Value* input : node->inputs) {
      if (input && --reads[input] == 0) known.erase(input);
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

}  // namespace requant

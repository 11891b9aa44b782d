#include "interpret/interpreter.h"

#include <map>
#include <utility>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

void CheckFeed(const Value& input, const Tensor& feed, std::map<std::string, int64_t>& symbols) {
  const ValueType& type = input.type;
  // Sequences and optional values come as uint8, and have its name.
  if (type.dtype != DType::kUndefined && DTypeName(feed.dtype()) != DTypeName(type.dtype)) {
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
  KnownValues known;
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
  return EvaluateGraph(graph, std::move(known), options.requantize, options.observe);
}

}  // namespace requant

#include "quant/float_weights.h"

#include <algorithm>

#include "base/json.h"
#include "base/str_cat.h"
#include "quant/body_scope.h"

namespace requant {
namespace {

constexpr int64_t kLeastWeights = 64;

void CollectInBodies(BodyScope& scope, const Node* outermost, QuantizationRecord& record,
                     FloatWeights& weights) {
  const std::string reason =
      StrCat("it is in a body of ", outermost->op_type, " '", outermost->name,
             "', where quantize() leaves all in float; quantizeWeights() and quantizeDynamic() "
             "quantize weights there");
  for (const auto& node : scope.graph().nodes()) {
    if (!node->has_subgraph()) {
      record.in_bodies.push_back({scope.PathOf(*node), node->op_type, reason});
    }
    for (const Value* input : node->inputs) {
      const Tensor* constant = node->has_subgraph() ? nullptr : scope.ConstantOf(input);
      if (constant == nullptr || !AreWeights(*constant)) continue;
      ++weights.total;
      weights.layers.push_back({scope.PathOf(*node), node->op_type, reason});
    }
  }
  scope.ForEachBody([&](BodyScope& body) { CollectInBodies(body, outermost, record, weights); });
}

/// By the options or by a recovery method, which has a line of its own.
bool WasChosen(const std::string& reason) {
  return reason == "the options keep it in float" || reason.ends_with(" keeps it in float");
}

}  // namespace

std::string FloatWeights::Summary() const {
  if (layers.empty()) return "";
  constexpr size_t kNamed = 3;
  std::string out = StrCat(layers.size(), " of ", total, " weights stay float: ");
  for (size_t i = 0; i < std::min(kNamed, layers.size()); ++i) {
    out +=
        StrCat(i > 0 ? "; those of '" : "those of '", layers[i].name, "', as ", layers[i].reason);
  }
  if (layers.size() > kNamed) out += StrCat("; and ", layers.size() - kNamed, " more");
  return out;
}

std::string FloatWeights::Json() const {
  JsonWriter json;
  json.BeginObject().Key("operators").BeginArray();
  for (const Layer& layer : layers) {
    json.BeginObject();
    json.Key("name").String(layer.name);
    json.Key("type").String(layer.op_type);
    json.Key("reason").String(layer.reason);
    json.EndObject();
  }
  json.EndArray().Key("summary").String(Summary()).EndObject();
  return json.text();
}

bool AreWeights(const Tensor& tensor) {
  if (tensor.count() < kLeastWeights || !IsFloat(tensor.dtype())) return false;
  const Shape& shape = tensor.shape();
  return std::count_if(shape.begin(), shape.end(), [](int64_t dim) { return dim > 1; }) > 1;
}

void NoteFloatWeights(Graph& graph, QuantizationRecord& record) {
  FloatWeights weights;
  for (const auto& node : graph.nodes()) {
    if (node->has_subgraph()) continue;
    const OperatorQuantization* op = record.Find(node->name);
    const bool is_float = op && !op->quantized && op->absorbed_by.empty() && !WasChosen(op->reason);
    for (size_t slot = 0; slot < node->inputs.size(); ++slot) {
      const Tensor* constant = node->constant(slot);
      if (constant == nullptr || !AreWeights(*constant)) continue;
      ++weights.total;
      if (is_float) weights.layers.push_back({node->name, node->op_type, op->reason});
    }
  }
  BodyScope scope(graph);
  std::vector<const Node*> owners;
  for (const auto& node : graph.nodes()) {
    for (const auto& [name, value] : node->attributes.entries()) {
      if (std::holds_alternative<Subgraph>(value)) owners.push_back(node.get());
    }
  }
  size_t next = 0;
  scope.ForEachBody(
      [&](BodyScope& body) { CollectInBodies(body, owners[next++], record, weights); });
  if (!weights.layers.empty()) record.warnings.push_back(weights.Summary());
}

}  // namespace requant

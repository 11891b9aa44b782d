#include "quant/weights/float_weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "base/json.h"
#include "base/str_cat.h"
#include "quant/graph/body_scope.h"
#include "quant/weights/weight_only.h"

namespace requant {
namespace {

constexpr int64_t kLeastWeights = 64;

/// Whether the options quantize an operator in a body. Options by name, for the operator's path or
/// for the node that holds the body, take precedence over those by type.
bool Quantizes(const QuantizeOptions& options, const std::string& path, const Node& node,
               const Node& outermost) {
  for (const std::string& name : {path, outermost.name}) {
    const auto found = options.by_name.find(name);
    if (found != options.by_name.end()) return found->second.quantize;
  }
  for (const std::string& type : {node.op_type, outermost.op_type}) {
    const auto found = options.by_type.find(type);
    if (found != options.by_type.end()) return found->second.quantize;
  }
  return options.global.quantize;
}

/// Quantizes the weights in bodies, and records the operators concerned.
void QuantizeBodies(Graph& graph, const QuantizeOptions& options, QuantizationRecord& record,
                    FloatWeights& weights) {
  std::set<std::string> kept;
  VisitBodies(graph, [&](const std::string& path, const Node& node, const Node& outermost) {
    if (node.has_subgraph()) return;
    const bool quantizes = Quantizes(options, path, node, outermost);
    if (!quantizes) kept.insert(path);
    record.in_bodies.push_back({path, node.op_type, quantizes ? "" : kKeptByOptions});
  });
  if (record.in_bodies.empty()) return;
  const size_t first = weights.layers.size();
  std::set<std::string> products;
  QuantizeBodiesDynamically(
      graph, [&](const std::string& path) { return kept.contains(path); }, weights, products,
      options.embeddings);
  std::map<std::string, std::string> reasons;
  for (size_t i = first; i < weights.layers.size(); ++i) {
    reasons.emplace(weights.layers[i].name, weights.layers[i].reason);
  }
  for (BodyOperator& op : record.in_bodies) {
    if (!op.reason.empty()) continue;
    op.quantized = products.contains(op.name);
    const auto given = reasons.find(op.name);
    op.reason = op.quantized             ? "in a body: 8-bit weights, activations as it runs"
                : given != reasons.end() ? given->second
                                         : "in bodies, only products with constant weights are "
                                           "computed in integers";
  }
}

/// Whether the options or a recovery method keep the operator in float, which the report says in a
/// line of its own.
bool WasChosen(const std::string& reason) {
  return reason == kKeptByOptions || reason.ends_with(" keeps it in float");
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

void SettleBodies(Graph& graph, const QuantizeOptions& options, QuantizationRecord& record) {
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
  QuantizeBodies(graph, options, record, weights);
  if (!weights.layers.empty()) record.warnings.push_back(weights.Summary());
}

}  // namespace requant

#include "passes/integers/integers.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "ops/op.h"
#include "passes/integers/writer.h"
#include "passes/rewrite.h"
#include "passes/shape/infer_type.h"

namespace requant {
namespace {

using integers::Reason;
using integers::Writer;

struct Row {
  const char* op;
  const char* domain;
  Reason (*legalize)(Writer&);
};

constexpr Row kRows[] = {
    {"QLinearConv", "", integers::LegalizeConv},
    {"QLinearConvTranspose", kRequantDomain, integers::LegalizeConvTranspose},
    {"QLinearMatMul", "", integers::LegalizeMatMul},
    {"QGemm", kMicrosoftDomain, integers::LegalizeGemm},
    {"QLinearAdd", kMicrosoftDomain, integers::LegalizeAdd},
    {"QLinearMul", kMicrosoftDomain, integers::LegalizeMul},
    {"QLinearConcat", kMicrosoftDomain, integers::LegalizeConcat},
    {"QLinearAveragePool", kMicrosoftDomain, integers::LegalizeAveragePool},
    {"QLinearGlobalAveragePool", kMicrosoftDomain, integers::LegalizeGlobalAverage},
};

/// Operators on codes that have no scales.
bool IsPlain(const Node& node) {
  return node.Is("ConvInteger") || node.Is("MatMulInteger") || node.Is("Lut", kRequantDomain) ||
         node.Is("FixedPointMultiply", kRequantDomain);
}

bool IsQuantizedOp(const Node& node) {
  const OpDef* op = FindOp(node);
  return op != nullptr && op->on_integers && !IsPlain(node);
}

/// Whether a body of the node, or a body inside it, has a quantized operator.
bool HasQuantizedBody(const Node& node) {
  for (const auto& [name, value] : node.attributes.entries()) {
    const auto* body = std::get_if<Subgraph>(&value);
    if (body == nullptr || *body == nullptr) continue;
    for (const auto& inner : (*body)->nodes()) {
      if (IsQuantizedOp(*inner) || HasQuantizedBody(*inner)) return true;
    }
  }
  return false;
}

Reason LegalizeNode(Graph& graph, Node* node, const IntegerForm& form) {
  for (const Row& row : kRows) {
    if (!node->Is(row.op, row.domain)) continue;
    Writer writer(graph, node, form);
    return row.legalize(writer);
  }
  return "it has no form in plain integer operators";
}

}  // namespace

IntegerReport LegalizeToIntegers(Graph& graph, const IntegerForm& form) {
  if (form.requantize == RequantizeMode::kFloat) {
    Fail(ErrorCode::kInvalidArgument, "float requantization has no form in integers",
         {.hint = "use 'fixed', 'nearest' or 'gemmlowp'"});
  }
  if (graph.opset() < 13) {
    Fail(ErrorCode::kUnsupported, "integer operators in the open need opset 13",
         {.hint = "raise the opset of the model"});
  }
  IntegerReport report;
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) {
    if (IsQuantizedOp(*node)) {
      nodes.push_back(node.get());
    } else if (HasQuantizedBody(*node)) {
      report.left.push_back({node->name, node->op_type, "operators in its bodies stay"});
    }
  }
  for (Node* node : nodes) {
    IntegerNode entry{node->name, node->op_type, ""};
    try {
      entry.reason = LegalizeNode(graph, node, form);
    } catch (Error& error) {
      error.AddNode(entry.name);
      throw;
    }
    (entry.reason.empty() ? report.legalized : report.left).push_back(std::move(entry));
  }
  graph.SortTopologically();
  RemoveDeadNodes(graph);
  InferTypes(graph);
  return report;
}

}  // namespace requant

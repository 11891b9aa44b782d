#include "api/prepare.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "api/late_functions.h"
#include "api/passes.h"
#include "ops/quantized/wide.h"
#include "passes/runner.h"
#include "passes/shape/infer_type.h"

namespace requant {

namespace {

/// Rewrites a graph with operators that have a form to be run (OpDef::rewrite).
void RewriteForRun(Graph& graph) {
  std::vector<bool (*)(Graph&)> done;
  const auto next = [&]() -> const OpDef* {
    for (const auto& node : graph.nodes()) {
      const OpDef* op = node->domain.empty() ? nullptr : FindOp(*node);
      const bool rewrites = op != nullptr && op->rewrite != nullptr;
      if (rewrites && std::find(done.begin(), done.end(), op->rewrite) == done.end()) return op;
    }
    return nullptr;
  };
  while (const OpDef* op = next()) {
    done.push_back(op->rewrite);
    if (std::string_view(op->name).starts_with("BitSerial")) InferTypes(graph);
    op->rewrite(graph);
  }
}

}  // namespace

void WidenToFloats(Graph& graph) {
  PipelineOptions widening;
  widening.only = {"WidenHalves"};
  if (HasHalves(graph)) RunPasses(graph, widening);
}

Graph WithFloats(const Graph& graph) {
  Graph copy = graph.Clone();
  WidenToFloats(copy);
  return copy;
}

void Prepare(Graph& graph, Reader reader) {
  WidenToFloats(graph);
  RewriteForRun(graph);
  // Packed weights must not be folded into floats.
  PipelineOptions packing;
  packing.only = {"PackBlockedWeights", "GatherCodes"};
  if (HasWeightCodes(graph)) RunPasses(graph, packing);
  RunPasses(graph, {});
  PipelineOptions rows;
  rows.only = {"FuseRowCodes"};
  if (reader == Reader::kPlan && HasRowCodes(graph)) RunPasses(graph, rows);
  PassContext context;
  if (Legalize(graph, context)) {
    RewriteForRun(graph);
    RunPasses(graph, {});
  }
  if (kPrepareBodies.loaded() && HasBodies(graph)) kPrepareBodies(graph);
}

PreparedModel PrepareForRun(Graph&& graph, Reader reader) {
  Prepare(graph, reader);
  return PreparedModel::Settled(std::move(graph));
}

std::vector<const OpDef*> OperatorsOf(const Graph& graph) {
  std::vector<const OpDef*> operators;
  const auto add = [&operators](const OpDef* op) {
    const bool known = std::find(operators.begin(), operators.end(), op) != operators.end();
    if (op != nullptr && !known) operators.push_back(op);
  };
  for (const auto& node : graph.nodes()) add(FindOp(*node));
  return operators;
}

bool NeedsRaising(const Graph& graph) { return graph.opset() < 13 && HasQdq(graph); }

bool HasWideCodes(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    if (node->op_type != "DequantizeLinear" && node->op_type != "QuantizeLinear") return false;
    const Value* integers = node->op_type[0] == 'D' ? node->inputs[0] : node->output(0);
    const Value* zero = node->input(2);
    return IsWide(integers->type.dtype) || (zero && IsWide(zero->type.dtype)) ||
           IsWide(static_cast<DType>(node->attributes.Int("output_dtype", 0)));
  });
}

FloatModel OptimizedFloat(const Graph& graph) {
  Graph copy = WithFloats(graph);
  PipelineOptions apart;
  apart.only = {"InferType", "DefuseAttention"};
  if (HasAttention(copy)) RunPasses(copy, apart);
  PipelineOptions options;
  options.for_quantizer = true;
  RunPasses(copy, options);
  return FloatModel(std::move(copy));
}

}  // namespace requant

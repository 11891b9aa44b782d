#include "api/requant.h"

#include <algorithm>

namespace requant {
namespace {

constexpr const char* kIntegerOps[] = {"QLinearConv", "QLinearMatMul", "ConvInteger",
                                       "MatMulInteger", "DynamicQuantizeLinear"};

bool HasQdq(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(),
                     [](const auto& node) { return node->op_type == "DequantizeLinear"; });
}

bool HasIntegerOps(const Graph& graph) {
  return std::any_of(graph.nodes().begin(), graph.nodes().end(), [](const auto& node) {
    const auto is = [&node](const char* name) { return node->op_type == name; };
    return node->domain == kRequantDomain || node->op_type.starts_with("QLinear") ||
           node->op_type == "QGemm" ||
           std::any_of(std::begin(kIntegerOps), std::end(kIntegerOps), is);
  });
}

}  // namespace

bool IsQuantized(const Graph& graph) { return HasQdq(graph) || HasIntegerOps(graph); }

Graph OptimizedFloat(const Graph& graph) {
  Graph copy = graph.Clone();
  RunPasses(copy, {});
  return copy;
}

std::shared_ptr<const Graph> PrepareForRun(std::shared_ptr<const Graph> graph) {
  // A graph that nobody else has need not be copied. (Graphs are never made const.)
  auto ready = graph.use_count() == 1 ? std::const_pointer_cast<Graph>(graph)
                                      : std::make_shared<Graph>(graph->Clone());
  graph.reset();
  RunPasses(*ready, {});
  if (!HasQdq(*ready) || HasIntegerOps(*ready)) return ready;
  std::optional<QuantizedModel> quantized = FromQdq(*ready, false);
  if (!quantized) return ready;
  ready.reset();
  auto integer = std::make_shared<Graph>(LowerToInteger(*quantized));
  quantized.reset();
  RunPasses(*integer, {});
  return integer;
}

}  // namespace requant

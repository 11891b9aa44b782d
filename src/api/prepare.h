// From a graph to the form that sessions run, and what the main module asks of a graph before.
#pragma once

#include <utility>
#include <vector>

#include "ir/graph.h"
#include "ops/op.h"
#include "plan/stages.h"
#include "quant/graph/prepare.h"
#include "quant/stages.h"

namespace requant {

/// Whether the graph has DequantizeLinear nodes.
bool HasQdq(const Graph& graph);
/// Whether the graph has Q/DQ nodes or integer operators.
bool IsQuantized(const Graph& graph);

/// The table rows of the operators in a graph, each once. PrepareForRun turns an operator into
/// extended operators only if it is one itself.
std::vector<const OpDef*> OperatorsOf(const Graph& graph);

/// Whether the graph has Q/DQ pairs of 16 bits, which become extended operators.
bool HasWideCodes(const Graph& graph);
/// Whether the graph is quantized in the forms of an older opset, so that it loads kRaiseOpset.
bool NeedsRaising(const Graph& graph);

/// Runs WidenHalves, and nothing else, on a graph that may have floats of 16 bits: for graphs on
/// which the passes do not run, or on which something else comes before them.
void WidenToFloats(Graph& graph);
/// A copy of the graph after WidenToFloats.
Graph WithFloats(const Graph& graph);

/// The graph in the form that sessions run: a float graph is optimized, Q/DQ nodes become integer
/// operators, and a QOperator graph is optimized as it is. Memory of a graph that is moved here is
/// freed early.
/// Plans have operators of their own (FuseRowCodes), which other readers do not know.
PreparedModel PrepareForRun(Graph&& graph, Reader reader = Reader::kPlan);
inline PreparedModel PrepareForRun(const Graph& graph, Reader reader = Reader::kPlan) {
  return PrepareForRun(graph.Clone(), reader);
}
inline PreparedModel PrepareForRun(IntegerModel&& model) {
  return PrepareForRun(std::move(model).Release());
}

/// The optimized form of a float graph, which the quantizer takes.
FloatModel OptimizedFloat(const Graph& graph);

/// Does in place what PrepareForRun does: rewrites, passes, integer operators, and the bodies of
/// control flow.
void Prepare(Graph& graph, Reader reader = Reader::kPlan);
/// Prepares the bodies of control flow, as graphs of their own.
void PrepareBodies(Graph& graph);

}  // namespace requant

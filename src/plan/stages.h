// The stages of a model on its way to a plan. docs/architecture.md has the table of all stages;
// quant/stages.h has those from floats to integers.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "ir/graph.h"
#include "tensor/shape.h"

namespace requant {

/// A model in the form that sessions run, for inputs of any shapes the graph allows: operators that
/// need it are rewritten, Q/DQ pairs are integer operators, bodies of control flow are prepared.
/// Movable; a copy is a Clone().
class PreparedModel {
 public:
  /// The graph without any change: it runs as it is.
  static PreparedModel AsIs(Graph graph) { return {std::move(graph), false}; }
  /// A graph on which the whole pipeline of passes has nothing left to do.
  static PreparedModel Settled(Graph graph) { return {std::move(graph), true}; }

  const Graph& graph() const { return graph_; }
  /// Whether the passes are done: Specialize then runs only those that new shapes call for.
  bool settled() const { return settled_; }
  /// Does FoldForRun, which the plans of all shapes then find done.
  void FoldConstants();
  /// Makes the large weights of products and convolutions lean (Tensor::Lean), where kernels can
  /// give their bytes back. Copies of the model that are made later share them.
  void LeanConstants();
  PreparedModel Clone() const { return {graph_.Clone(), settled_}; }
  Graph Release() && { return std::move(graph_); }

 private:
  PreparedModel(Graph graph, bool settled) : graph_(std::move(graph)), settled_(settled) {}

  Graph graph_;
  bool settled_;
};

/// A prepared model for one shape of each input: types are inferred, shape arithmetic is folded,
/// known branches are taken and groups of operators found. Specialize makes it.
class SpecializedModel {
 public:
  explicit SpecializedModel(Graph graph) : graph_(std::move(graph)) {}

  const Graph& graph() const { return graph_; }
  /// Whether one plan can run it: no control flow, and every type is known. Otherwise it runs as a
  /// Program (session/program.h).
  bool is_static() const;
  Graph Release() && { return std::move(graph_); }

 private:
  Graph graph_;
};

/// Computes the nodes that depend on constants only and that no pass may fold, because they say how
/// a file is quantized (weights behind DequantizeLinear, Quant, packed bits). A graph that is only
/// run does not need them.
void FoldForRun(Graph& graph);

/// Who reads a specialized model.
enum class Reader : uint8_t {
  kPlan,   // it may have operators that only plans know
  kOther,  // it is shown, written or compiled
};

/// The model for these shapes, one for each input that is no constant, in order.
SpecializedModel Specialize(PreparedModel model, const std::vector<Shape>& input_shapes,
                            Reader reader = Reader::kPlan);

/// Whether a plan can have this node: it has no control flow, and every output has a dtype and a
/// static shape.
bool IsPlannable(const Node& node);

}  // namespace requant

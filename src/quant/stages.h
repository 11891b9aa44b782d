// The stages of a model that the quantizer takes and makes, from floats to integers.
// docs/architecture.md has the table of all stages.
#pragma once

#include <utility>

#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

/// A float model in the form that the quantizer takes: opset 13 or newer, every type inferred, no
/// integers in place of floats. Movable.
class FloatModel {
 public:
  /// Raises the graph's opset and infers its types. A graph to quantize must be optimized and
  /// sorted, with static ranks and BatchNormalization folded (OptimizedFloat, api/prepare.h).
  /// Throws kUnsupported for an operator whose form of opset 13 is not known.
  explicit FloatModel(Graph&& graph);
  /// Does so with a clone, which shares the bytes of constants.
  explicit FloatModel(const Graph& graph) : FloatModel(graph.Clone()) {}

  const Graph& graph() const { return graph_; }
  Graph Release() && { return std::move(graph_); }

 private:
  Graph graph_;
};

/// A float model and how every slot of its operators is quantized. Movable.
struct QuantizedModel {
  /// Has the original float weights, as far as no recovery method changed them.
  Graph float_graph;
  QuantizationRecord record;
};

/// A quantized model in ONNX's integer operators and our own. Inputs and outputs are float unless
/// the options left them on their grids, nodes keep the names of the float nodes that they compute,
/// and the integer form of value v is named v_q. LowerToInteger makes it. Movable.
class IntegerModel {
 public:
  explicit IntegerModel(Graph graph) : graph_(std::move(graph)) {}

  const Graph& graph() const { return graph_; }
  Graph Release() && { return std::move(graph_); }

 private:
  Graph graph_;
};

}  // namespace requant

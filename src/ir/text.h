#pragma once

#include <string>
#include <string_view>

#include "ir/graph.h"

namespace requant {

struct PrintOptions {
  /// Constants with more elements print as `<shape, N elements>`, which does not parse; 0 prints
  /// every element, so that the text round-trips.
  size_t max_constant_elements = 0;
};

/// The graph as text, one node a line, in the grammar that ParseGraph reads:
///
///   graph "name" opset 13, com.microsoft 1
///   input %image: float32[N, 1, 28, 28]
///   const %w: float32[2, 2] = {1, 2, 3, 4}
///   %y: float32[N, 2] = Gemm(%x, %w, _) {transB = 1, alpha = 1.0} "node name"
///   %z: uint8[N, 2] = com.microsoft::QLinearAdd(%a, ...)
///   %r: float32[N, 2] = Relu(%y) "relu" of "node name"
///   output %r
///
/// A subgraph is an attribute, `then_branch = { graph "name" opset 13 ... output %y }`; its
/// `capture` lines are the inputs that stand for the node's last inputs (Graph::captured). `of`
/// names the layer that runs the node (Node::group), `uses` the bytes of memory in use while it
/// runs (Node::used_bytes). `_` is an optional input or output that is left out. Floats print with
/// 9 digits and a dot, so they differ from integers and survive the round trip. Names that are no
/// identifiers are quoted: %"a name".
std::string PrintGraph(const Graph& graph, const PrintOptions& options = {});

/// Attributes as PrintGraph writes them, `{a = 1, b = 2}`, except those in `without`; "" when there
/// are none.
std::string PrintAttributes(const AttributeMap& attributes,
                            std::initializer_list<std::string_view> without = {});

/// The graph that the text describes. Throws kInvalidModel with line and column.
Graph ParseGraph(std::string_view text);

/// The graph in Graphviz DOT: operators as boxes, values on the edges.
std::string GraphToDot(const Graph& graph);

}  // namespace requant

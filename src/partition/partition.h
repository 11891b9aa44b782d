// A graph divided among backends: which of its operators run where.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// What may run a part of a graph in the engine's stead.
struct Backend {
  /// Which nodes it takes: not 0 at their places in Graph::nodes(), of which there is one for each.
  std::vector<uint8_t> takes;
  /// Chains of operators that it runs as one, tried in this order: types ("Conv"), or with their
  /// domain ("com.microsoft::QGemm"). Each result is read by the next operator alone.
  std::vector<std::vector<std::string>> patterns;
  /// Of a part; 0: any number. A longer chain is not taken.
  int64_t max_operators = 0;
  /// A part of fewer multiply-adds is not worth leaving the engine.
  int64_t min_macs = 0;
};

constexpr int kHost = -1;

struct Part {
  int backend = kHost;  ///< or its place in the list
  Graph graph;          ///< names are the whole graph's
  int64_t macs = 0;     ///< unknown dimensions count as 1
};

/// The parts in an order in which they can run: each reads inputs of the graph and outputs of parts
/// before it, so that there is no cycle among them. A backend comes before those behind it in the
/// list; what none takes is the host's. Together they compute the outputs of the graph but for
/// those that are its inputs.
std::vector<Part> PartitionGraph(const Graph& graph, const std::vector<Backend>& backends);

// --- what it consists of

/// The chain of nodes from `first` on that a pattern describes; empty: there is none.
std::vector<const Node*> MatchPattern(const Graph& graph, const Node* first,
                                      const std::vector<std::string>& pattern);

/// Multiply-adds of convolutions and matrix products, 0 of anything else.
int64_t MacsOf(const Node& node);

/// Nodes that stay together, in an order in which every one only reads from those before it.
struct Unit {
  int backend = kHost;
  std::vector<const Node*> nodes;
};

/// Units joined to as few regions as it finds: those of one backend that are connected, if nothing
/// outside lies between, and of the host also others. `most` are operators of a region by backend;
/// 0: any number. The regions are in an order like the units'.
std::vector<Unit> MergeRegions(const Graph& graph, const std::vector<Unit>& units,
                               const std::vector<int64_t>& most);

}  // namespace requant

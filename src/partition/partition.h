// Divides a graph among backends: which of its operators run where.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/composite.h"
#include "ir/graph.h"

namespace requant {

/// A backend that may run parts of a graph instead of the engine.
struct Backend {
  /// Has one entry for each of Graph::nodes(), not 0 for the nodes that the backend takes.
  std::vector<uint8_t> takes;
  /// The groups of nodes that the backend may run as one. The first ones of which all nodes are
  /// free are taken, before single nodes.
  std::vector<Composite> composites;
  /// The most operators in a part; 0: any number. A larger composite is not taken.
  int64_t max_operators = 0;
  /// A part of fewer multiply-adds stays with the engine.
  int64_t min_macs = 0;
  /// Whether neighbors are joined to larger parts; otherwise each composite and each single node is
  /// a part.
  bool join = true;
};

constexpr int kHost = -1;

struct Part {
  int backend = kHost;  ///< kHost, or an index in the list of backends
  Graph graph;          ///< with the names of the whole graph
  int64_t macs = 0;     ///< multiply-adds; unknown dimensions count as 1
  /// The composites that it consists of, beside single nodes; with indices in graph.nodes().
  std::vector<Composite> composites = {};
};

/// Divides the graph into parts, in an order in which they can run: each reads inputs of the graph
/// and outputs of parts before it, so the parts have no cycle. A backend takes precedence over
/// those behind it in the list; nodes that none takes belong to the host. Together the parts
/// compute all outputs of the graph that are not its inputs. Throws kInvalidArgument, with the
/// node, for a composite that is none.
std::vector<Part> PartitionGraph(const Graph& graph, const std::vector<Backend>& backends);

// --- the steps of PartitionGraph

/// The multiply-adds of a convolution or matrix product; 0 for other operators.
int64_t MacsOf(const Node& node);

/// Nodes that stay together, in an order in which each reads only from those before it.
struct Unit {
  int backend = kHost;
  std::vector<const Node*> nodes;
};

/// Joins units to as few regions as it finds. Units of one backend are joined if they are connected
/// and nothing outside the region lies between them; units of the host also if they are not
/// connected. most[backend] limits the operators of a region; 0: any number. Regions keep the
/// units' order.
std::vector<Unit> MergeRegions(const Graph& graph, const std::vector<Unit>& units,
                               const std::vector<int64_t>& most);

}  // namespace requant

// Graph passes. Each is one file with one row in passes.inc and can be run alone, turned off, timed
// and dumped.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/graph.h"

namespace requant {

/// Limits that passes obey; every pass of a run gets the same object.
struct PassContext {
  /// Passes make no constant larger than this.
  size_t max_constant_bytes = size_t{64} << 20;
  /// Passes make no constant more than this many times as large as its operands, except small ones.
  size_t max_constant_growth = 8;  // as when a byte becomes its bits (quant/weights/pack_weights.h)
  /// Whether the graph is planned for its shapes and never written to a file.
  bool for_plan = false;
  /// Whether the quantizer reads the graph: products that it can compute in integers stay apart.
  bool for_quantizer = false;
};

enum class PassRole : uint8_t {
  kDefault,
  kByName,            // not part of the default pipeline
  kAnnotation,        // part of the default pipeline; annotates nodes, and no other pass reads that
  kAnnotationByName,  // annotates as well, and is not part of the default pipeline
};

struct Pass {
  const char* name;
  const char* summary;
  /// The largest error of a graph output, relative to the largest magnitude among all values that
  /// the graph computes (at least 1); 0: every bit stays (a zero may change its sign). For passes
  /// that replace functions by others, the error is relative to the function's own result.
  double bound;
  PassRole role;
  /// Rewrites the graph and leaves it sorted and without dead nodes. Returns whether anything
  /// changed. Throws Error for graphs that can never run.
  bool (*run)(Graph& graph, PassContext& context);
  /// Whether the pass may find anything in a graph; nullptr: run it to see. Passes whose code is
  /// among the extended operators must have one, by which the loader decides to load them
  /// (bindings/README.md); while they are not loaded the pass does not run.
  bool (*may_apply)(const Graph& graph) = nullptr;

  bool optional() const { return role == PassRole::kByName || role == PassRole::kAnnotationByName; }
  /// Whether the pass only writes annotations, after which no pass has to run again.
  bool annotates() const {
    return role == PassRole::kAnnotation || role == PassRole::kAnnotationByName;
  }
};

/// All passes in the order of the default pipeline, with the optional ones in their positions.
std::span<const Pass> PassTable();

#define PASS(name, role, bound, may_apply, summary) bool name(Graph& graph, PassContext& context);
#include "passes/passes.inc"
#undef PASS

/// Whether an input, output, constant or Cast of the graph or its bodies has one of the types.
bool HasType(const Graph& graph, bool (*is_one)(DType));

// These functions say whether a pass may apply (may_apply.cpp).
bool HasAtrousTrick(const Graph& graph);
bool HasAttention(const Graph& graph);
bool HasAttentionParts(const Graph& graph);
bool HasWeightCodes(const Graph& graph);
bool HasBodies(const Graph& graph);
bool HasEinsum(const Graph& graph);
bool HasHalves(const Graph& graph);
bool HasNormalizationParts(const Graph& graph);
bool HasRowCodes(const Graph& graph);

}  // namespace requant

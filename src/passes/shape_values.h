#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// One element of an integer value that computes shapes: a number, or a dimension of that symbol
/// (empty: anything).
struct ShapeEntry {
  bool known = false;
  int64_t value = 0;
  std::string symbol;
};

/// Scalars and 1-D integer values whose elements are known or are dimensions of some value, found
/// by following Shape, Size, Gather, Slice, Concat, Squeeze, Unsqueeze, Cast and Identity through
/// the graph. Constants are not listed.
std::map<Value*, std::vector<ShapeEntry>> FindShapeValues(const Graph& graph);

}  // namespace requant

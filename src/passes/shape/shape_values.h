#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// One element of an integer value that computes shapes: a number, or a dimension with that symbol
/// (empty: unknown).
struct ShapeEntry {
  bool known = false;
  int64_t value = 0;
  std::string symbol;
};

/// Scalars and 1-D integer values whose elements are numbers or dimensions of some value. Follows
/// Shape, Size, Gather, Slice, Concat, Squeeze, Unsqueeze, Cast, Identity, arithmetic, comparison
/// and choice (Equal, Where) of such values, and fills (ConstantOfShape) through the graph.
/// Constants are not listed.
std::map<Value*, std::vector<ShapeEntry>> FindShapeValues(const Graph& graph);

/// The entries that a Shape or Size node computes from its operand's type; nullopt for other nodes
/// and unknown ranks.
std::optional<std::vector<ShapeEntry>> EntriesOfType(const Node& node);

/// The entries as a tensor of the value's type, if all of them are known.
std::optional<Tensor> TensorOf(const Value& value, const std::vector<ShapeEntry>& entries);

}  // namespace requant

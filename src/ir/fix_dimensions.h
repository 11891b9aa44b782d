// Gives symbolic dimensions their sizes.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "ir/graph.h"

namespace requant {

/// Makes the dimensions of these symbols known, in the types of all values, so that shapes which
/// follow from them can be inferred before a feed is seen. Symbols that the graph does not have are
/// ignored. Throws kInvalidArgument for a negative size.
void FixDimensions(Graph& graph, const std::map<std::string, int64_t>& sizes);

}  // namespace requant

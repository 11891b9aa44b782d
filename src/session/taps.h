// Turns inner values into outputs.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"

namespace requant {

/// A copy of the graph that also returns these values, as far as they exist and are not constants.
std::shared_ptr<const Graph> WithTaps(const Graph& graph, const std::vector<std::string>& values);

}  // namespace requant

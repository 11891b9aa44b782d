// Turns inner values into outputs.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "plan/stages.h"

namespace requant {

/// A copy that also returns these values, as far as they exist and are not constants.
Graph WithTaps(const Graph& graph, const std::vector<std::string>& values);
PreparedModel WithTaps(const PreparedModel& model, const std::vector<std::string>& values);

}  // namespace requant

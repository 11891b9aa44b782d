#include "session/taps.h"

#include <utility>

namespace requant {

Graph WithTaps(const Graph& graph, const std::vector<std::string>& values) {
  Graph copy = graph.Clone();
  for (const std::string& name : values) {
    Value* value = copy.FindValue(name);
    if (value && value->producer && !copy.IsOutput(value)) copy.AddOutput(value);
  }
  return copy;
}

PreparedModel WithTaps(const PreparedModel& model, const std::vector<std::string>& values) {
  Graph tapped = WithTaps(model.graph(), values);
  // More outputs leave passes nothing more to do.
  return model.settled() ? PreparedModel::Settled(std::move(tapped))
                         : PreparedModel::AsIs(std::move(tapped));
}

}  // namespace requant

#include "session/taps.h"

namespace requant {

std::shared_ptr<const Graph> WithTaps(const Graph& graph, const std::vector<std::string>& values) {
  auto copy = std::make_shared<Graph>(graph.Clone());
  for (const std::string& name : values) {
    Value* value = copy->FindValue(name);
    if (value && value->producer && !copy->IsOutput(value)) copy->AddOutput(value);
  }
  return copy;
}

}  // namespace requant

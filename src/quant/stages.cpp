#include "quant/stages.h"

#include "quant/graph/prepare.h"

namespace requant {

FloatModel::FloatModel(Graph&& graph) : graph_(std::move(graph)) {
  if (graph_.opset() < 13) {
    RefreshTypes(graph_);
    kRaiseOpset(graph_, 13);
  }
  RefreshTypes(graph_);
}

}  // namespace requant

#include "quant/assign/table_region.h"

#include <algorithm>
#include <map>
#include <vector>

#include "base/error.h"

namespace requant {

/// The points get the rank of the region's input, because PRelu's slope may have as many axes as
/// its input and no more.
Tensor EvaluateRegion(const Graph& graph, const OperatorQuantization& op, const Tensor& points) {
  const Value* region_input = graph.FindValue(op.table_input);
  Shape shape(region_input->type.shape ? std::max<size_t>(1, region_input->type.shape->size()) : 1,
              1);
  shape.back() = points.count();
  std::map<const Value*, Tensor> known;
  known[region_input] = points.Reshaped(shape);
  Tensor last;
  for (const std::string& name : op.table) {
    const Node* node = graph.FindNode(name);
    std::vector<const Tensor*> inputs;
    for (const Value* input : node->inputs) {
      if (input == nullptr) {
        inputs.push_back(nullptr);
      } else if (input->is_constant()) {
        inputs.push_back(&input->constant);
      } else {
        inputs.push_back(&known.at(input));
      }
    }
    std::vector<Tensor> outputs = EvaluateNode(graph, *node, inputs, RequantizeMode::kUpward);
    last = outputs[0];
    known[node->outputs[0]] = std::move(outputs[0]);
  }
  if (last.dtype() != DType::kFloat32 || last.count() != points.count()) {
    Fail(ErrorCode::kInternal, "a table's operators are not elementwise");
  }
  return last.Reshaped({points.count()});
}

}  // namespace requant

#include "ops/function_text.h"

#include "ops/infer_util.h"
#include "ops/subgraph.h"

namespace requant {

std::unique_ptr<Graph> GraphOfText(const Graph& graph, const Node& node,
                                   void (*write)(FunctionText&)) {
  FunctionText text(node,
                    graph.opsets.contains("") ? graph.opset("") : FunctionText::kDefaultOpset);
  write(text);
  if (text.waits()) return nullptr;
  return std::make_unique<Graph>(ParseGraph(text.text()));
}

void EvaluateByBody(EvalContext& context) {
  // The body may depend on the ranks of the inputs, which are known now.
  Graph around;
  around.opsets = {{"", context.onnx_opset}, {kMicrosoftDomain, 1}};
  std::vector<Value*> inputs;
  std::vector<const Tensor*> given;
  for (const Tensor* tensor : context.inputs) {
    inputs.push_back(tensor ? around.AddValue("", TypeOf(*tensor)) : nullptr);
    if (tensor) given.push_back(tensor);
  }
  std::vector<Value*> outputs;
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    outputs.push_back(context.node.output(i) ? around.AddValue("") : nullptr);
  }
  const Node* twin = around.AddNode(context.node.op_type, context.node.domain, std::move(inputs),
                                    std::move(outputs), context.node.attributes);
  std::vector<Tensor> results = EvaluateGraph(
      *FindOp(twin->op_type, twin->domain)->expand(around, *twin), given, context.requantize);
  results.resize(context.outputs.size());
  context.outputs = std::move(results);
}

}  // namespace requant

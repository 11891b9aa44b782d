#include "ops/function/function_text.h"

#include "base/number_text.h"
#include "ops/control/subgraph.h"
#include "ops/infer_util.h"

namespace requant {

FunctionText::FunctionText(const Node& node, int opset) : node_(node), opset_(opset) {
  Line("graph \"\" opset $0, com.microsoft 1, ai.requant 1", opset);
  for (size_t i = 0; i < node.inputs.size(); ++i) {
    if (node.inputs[i]) Line("input %i$0", i);
  }
}

void FunctionText::Append(const char* line, std::initializer_list<StrPiece> pieces) {
  for (; *line != '\0'; ++line) {
    if (*line == '$') {
      pieces.begin()[*++line - '0'].AppendTo(text_);
    } else if (*line == '?') {
      ++line;
      text_ += Has(static_cast<size_t>(*line - '0')) ? StrCat("%i", *line) : "_";
    } else {
      text_ += *line;
    }
  }
  text_ += '\n';
}

void FunctionText::Ints(const char* name, std::span<const int64_t> values) {
  std::string list;
  for (const int64_t value : values) list += StrCat(list.empty() ? "" : ", ", value);
  Line("const %$0: int64[$1] = {$2}", StrPiece(name), values.size(), list);
}

std::string FunctionText::Plus(const std::string& a, size_t slot) {
  if (!Has(slot)) return a;
  std::string sum = StrCat(a, "_plus", slot);
  Line("$0 = Add($1, %i$2)", sum, a, slot);
  return sum;
}

std::string FunctionText::Real(double value) {
  std::string text = NumberText(value, 9);
  if (text.find_first_of(".en") == std::string::npos) text += ".0";
  return text;
}

std::unique_ptr<Graph> GraphOfText(const Graph& graph, const Node& node,
                                   void (*write)(FunctionText&)) {
  FunctionText text(node,
                    graph.opsets.contains("") ? graph.opset("") : FunctionText::kDefaultOpset);
  write(text);
  if (text.waits()) return nullptr;
  return std::make_unique<Graph>(ParseGraph(text.text()));
}

void InferFrom(InferContext& context, const std::unique_ptr<Graph>& body) {
  if (!body) {
    const DType dtype = context.inputs[0].dtype;
    return SetOutput(context, 0, IsFloat(dtype) ? dtype : DType::kUndefined, std::nullopt);
  }
  std::vector<ValueType> types;
  for (size_t i = 0; i < context.inputs.size(); ++i) {
    if (context.has(i)) types.push_back(context.inputs[i]);
  }
  const std::vector<ValueType> results = InferGraph(*body, types);
  for (size_t i = 0; i < context.outputs.size(); ++i) {
    if (i < results.size()) context.outputs[i] = results[i];
  }
}

void InferByBody(InferContext& context) {
  const Node& node = context.node;
  InferFrom(context, FindOp(node)->expand(context.graph, node));
}

void EvaluateByBody(EvalContext& context) {
  // The body may depend on the ranks of the inputs, which an evaluation knows.
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
  std::vector<Tensor> results =
      EvaluateGraph(*FindOp(*twin)->expand(around, *twin), given, context.requantize);
  results.resize(context.outputs.size());
  context.outputs = std::move(results);
}

}  // namespace requant

// Nodes of functions whose opset is older than the model's. ONNX demands that an operator means the
// same in both (onnx/onnx.proto, ModelProto.functions), but exporters do not keep to it. A row is a
// change of an operator's form (onnx docs/Changelog.md); all other operators mean the same.
#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"
#include "onnx/local_functions.h"
#include "tensor/tensor.h"

namespace requant {
namespace {

struct RaiseContext {
  Graph& graph;
  const RaisedNode& node;

  void Set(size_t slot, const char* what, Tensor tensor) const {
    std::vector<Value*>& inputs = node.inputs;
    if (inputs.size() <= slot) inputs.resize(slot + 1);
    inputs[slot] = graph.AddConstant(StrCat(node.parts.Label(), "_", what), std::move(tensor));
  }
  void ListToInput(const char* attribute, size_t slot) const {
    if (!node.attributes.Has(attribute)) return;
    Set(slot, attribute, Tensor::Vector(node.attributes.Ints(attribute)));
    node.attributes.Remove(attribute);
  }
  void FloatToInput(const char* attribute, size_t slot) const {
    if (!node.attributes.Has(attribute)) return;
    Set(slot, attribute, Tensor::Scalar(node.attributes.Float(attribute, 0)));
    node.attributes.Remove(attribute);
  }
};

bool Axes(const RaiseContext& context) { return context.ListToInput("axes", 1), true; }
bool Split(const RaiseContext& context) { return context.ListToInput("split", 1), true; }
bool Slice(const RaiseContext& context) {
  context.ListToInput("starts", 1);
  context.ListToInput("ends", 2);
  context.ListToInput("axes", 3);
  return true;
}
bool TopK(const RaiseContext& context) {
  context.Set(1, "k", Tensor::Vector<int64_t>({context.node.attributes.Int("k", 1)}));
  context.node.attributes.Remove("k");
  return true;
}
bool Clip(const RaiseContext& context) {
  context.FloatToInput("min", 1);
  context.FloatToInput("max", 2);
  return true;
}
bool Pad(const RaiseContext& context) {
  context.ListToInput("pads", 1);
  context.FloatToInput("value", 2);
  return true;
}
bool Dropout(const RaiseContext& context) {
  context.node.attributes.Remove("ratio");  // of training only
  return true;
}
bool EqualSplit(const RaiseContext& context) {
  const RaisedNode& node = context.node;
  if (node.inputs.size() > 1 && node.inputs[1]) return true;
  node.attributes.Set("num_outputs", static_cast<int64_t>(node.outputs.size()));
  return true;
}
bool GridSample(const RaiseContext& context) {
  const std::string mode = context.node.attributes.String("mode", "bilinear");
  if (mode == "bilinear") context.node.attributes.Set("mode", std::string("linear"));
  if (mode == "bicubic") context.node.attributes.Set("mode", std::string("cubic"));
  return true;
}
bool Dft(const RaiseContext& context) {
  context.Set(2, "axis", Tensor::Scalar(context.node.attributes.Int("axis", 1)));
  context.node.attributes.Remove("axis");
  return true;
}
/// Before opset 13, Softmax worked on the matrix [dims before axis, all others], for which the last
/// axis makes no difference.
bool Softmax(const RaiseContext& context) {
  const RaisedNode& node = context.node;
  const int64_t axis = node.attributes.Int("axis", 1);
  if (axis == -1) return true;
  if (node.inputs.empty() || node.outputs.empty() || !node.inputs[0] || !node.outputs[0]) {
    return true;  // no valid node in any opset
  }
  Graph& graph = context.graph;
  const std::string& name = node.parts.Label();
  AttributeMap flatten;
  flatten.Set("axis", axis);
  Value* shape = graph.AddOp("Shape", "", {node.inputs[0]}, name + "_shape", {});
  Value* result = graph.AddValue(name + "_matrix");
  graph.AddNode("Reshape", "", {result, shape}, {node.outputs[0]}, {}, name + "_reshape");
  node.inputs[0] = graph.AddOp("Flatten", "", {node.inputs[0]}, name + "_flat", {}, flatten);
  node.outputs[0] = result;
  node.attributes.Set("axis", int64_t{1});
  return true;
}
/// A form that the new one cannot express, or only by types that the reader does not know.
bool Refuse(const RaiseContext&) { return false; }

struct Row {
  const char* op;
  int until;
  bool (*raise)(const RaiseContext&);
};

constexpr Row kRows[] = {
    {"Scan", 9, Refuse},
    {"Upsample", 10, Refuse},
    {"Slice", 10, Slice},
    {"TopK", 10, TopK},
    {"Clip", 11, Clip},
    {"Pad", 11, Pad},
    {"Resize", 11, Refuse},
    {"Dropout", 12, Dropout},
    {"Squeeze", 13, Axes},
    {"Unsqueeze", 13, Axes},
    {"ReduceSum", 13, Axes},
    {"Split", 13, Split},
    {"Softmax", 13, Softmax},
    {"LogSoftmax", 13, Softmax},
    {"Hardmax", 13, Softmax},
    {"ReduceL1", 18, Axes},
    {"ReduceL2", 18, Axes},
    {"ReduceLogSum", 18, Axes},
    {"ReduceLogSumExp", 18, Axes},
    {"ReduceMax", 18, Axes},
    {"ReduceMean", 18, Axes},
    {"ReduceMin", 18, Axes},
    {"ReduceProd", 18, Axes},
    {"ReduceSumSquare", 18, Axes},
    {"Split", 18, EqualSplit},
    {"GridSample", 20, GridSample},
    {"DFT", 20, Dft},
    {"GroupNormalization", 21, Refuse},
};

// Operators had other forms before opset 7, which UpgradeOpset converts for whole graphs only.
constexpr int kOldestRaised = 7;

/// The version of ONNX that a node's text is in.
int VersionOf(const LocalFunctions& functions, const FunctionScope* scope, int graph) {
  int version = functions.model_opset;
  if (scope) {
    const auto found = scope->function.opsets.find("");
    version = found == scope->function.opsets.end() ? 0 : found->second;
  }
  return version == 0 ? graph : version;
}

}  // namespace

void RaiseNode(Graph& graph, const RaisedNode& node, const LocalFunctions& functions,
               const FunctionScope* scope) {
  const int to = graph.opset();
  const int from = VersionOf(functions, scope, to);
  if (from >= to || !node.parts.domain.empty()) return;
  const RaiseContext context{graph, node};
  bool raised = from >= kOldestRaised;
  for (const Row& row : kRows) {
    if (raised && from < row.until && row.until <= to && node.parts.op_type == row.op) {
      raised = row.raise(context);
    }
  }
  if (raised) return;
  Fail(ErrorCode::kUnsupported,
       StrCat(node.parts.op_type, " of opset ", from, " in a model with parts of opset ", to),
       {.node = node.parts.Label(),
        .hint = "export the model and its functions with one opset (onnx.version_converter)"});
}

}  // namespace requant

// Opset 7..12 -> 13. One row for each operator whose form changed in between (onnx docs/
// Changelog.md); all others mean the same in both.
#include <string>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/prepare.h"

namespace requant {
namespace {

constexpr int kWantedOpset = 13;

void AppendConstant(Graph& graph, Node& node, size_t slot, const char* what, Tensor tensor) {
  graph.SetInput(&node, slot, graph.AddConstant(StrCat(node.name, "_", what), std::move(tensor)));
}

/// An attribute with a list of integers becomes the input `slot`.
void ListToInput(Graph& graph, Node& node, const char* attribute, size_t slot) {
  if (!node.attributes.Has(attribute)) return;
  const std::vector<int64_t> values = node.attributes.Ints(attribute);
  node.attributes.Remove(attribute);
  AppendConstant(graph, node, slot, attribute, Tensor::Vector(values));
}

void RaiseAxes(Graph& graph, Node& node, int) { ListToInput(graph, node, "axes", 1); }
void RaiseSplit(Graph& graph, Node& node, int) { ListToInput(graph, node, "split", 1); }

void RaiseSlice(Graph& graph, Node& node, int from) {
  if (from >= 10) return;
  ListToInput(graph, node, "starts", 1);
  ListToInput(graph, node, "ends", 2);
  ListToInput(graph, node, "axes", 3);
}

void RaiseTopK(Graph& graph, Node& node, int from) {
  if (from >= 10 || !node.attributes.Has("k")) return;
  const int64_t k = node.attributes.Int("k", 1);
  node.attributes.Remove("k");
  AppendConstant(graph, node, 1, "k", Tensor::Vector<int64_t>({k}));
}

void RaiseClip(Graph& graph, Node& node, int from) {
  if (from >= 11) return;
  for (const auto& [name, slot] : {std::pair{"min", size_t{1}}, std::pair{"max", size_t{2}}}) {
    if (!node.attributes.Has(name)) continue;
    const float bound = node.attributes.Float(name, 0);
    node.attributes.Remove(name);
    AppendConstant(graph, node, slot, name, Tensor::Scalar(bound));
  }
}

void RaisePad(Graph& graph, Node& node, int from) {
  if (from >= 11) return;
  ListToInput(graph, node, "pads", 1);
  const float value = node.attributes.Float("value", 0);
  node.attributes.Remove("value");
  if (value != 0) AppendConstant(graph, node, 2, "value", Tensor::Scalar(value));
}

/// Upsample and Resize-10 repeat pixel floor(i / scale): Resize-11 calls that asymmetric and floor.
void RaiseResize(Graph& graph, Node& node, int from) {
  if (from >= 11) return;
  Value* scales = node.input(1);
  if (node.op_type == "Upsample") {
    if (node.attributes.Has("scales")) {
      scales = graph.AddConstant(node.name + "_scales",
                                 Tensor::Vector(node.attributes.Floats("scales")));
      node.attributes.Remove("scales");
    }
    node.op_type = "Resize";
  }
  if (scales == nullptr) {
    Fail(ErrorCode::kInvalidModel, "Upsample without scales", {.node = node.name});
  }
  graph.SetInput(&node, 2, scales);
  graph.SetInput(&node, 1, nullptr);
  node.attributes.Set("coordinate_transformation_mode", std::string("asymmetric"));
  node.attributes.Set("nearest_mode", std::string("floor"));
}

void RaiseDropout(Graph&, Node& node, int) { node.attributes.Remove("ratio"); }

/// Before opset 13 these worked on the matrix [dims before axis, all others]; since then on the one
/// axis. They agree when every dimension after the axis is 1.
void RaiseSoftmax(Graph& graph, Node& node, int) {
  const Value* input = node.input(0);
  const auto& shape = input ? input->type.shape : std::nullopt;
  if (!shape) {
    Fail(ErrorCode::kUnsupported, StrCat(node.op_type, " of unknown rank cannot be raised"),
         {.node = node.name, .hint = "export the model with opset 13 or newer"});
  }
  const auto rank = static_cast<int64_t>(shape->size());
  int64_t axis = node.attributes.Int("axis", 1);
  if (axis < 0) axis += rank;
  if (axis < 0 || axis >= rank) {
    Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, "'s axis is out of range"),
         {.node = node.name});
  }
  node.attributes.Set("axis", axis);
  bool single = true;
  std::vector<int64_t> flat(static_cast<size_t>(axis), 0);  // 0: copied by Reshape
  std::vector<int64_t> back = flat;
  flat.push_back(-1);
  for (auto i = static_cast<size_t>(axis); i < shape->size(); ++i) {
    const Dim& dim = (*shape)[i];
    single = single && (i == static_cast<size_t>(axis) || (dim.known() && dim.value == 1));
    back.push_back(dim.known() ? dim.value : -2);
  }
  if (single) return;
  for (const int64_t dim : back) {
    if (dim != -2) continue;
    Fail(ErrorCode::kUnsupported,
         StrCat(node.op_type, " over several axes of unknown size cannot be raised to opset 13"),
         {.node = node.name, .hint = "export the model with opset 13 or newer"});
  }
  Value* output = node.outputs[0];
  Value* matrix = graph.AddOp(
      "Reshape", "",
      {node.inputs[0], graph.AddConstant(node.name + "_flat_shape", Tensor::Vector(flat))},
      node.name + "_flat", {DType::kFloat32, std::nullopt}, {}, node.name + "_flatten");
  graph.SetInput(&node, 0, matrix);
  Value* result = graph.AddValue(node.name + "_matrix", {DType::kFloat32, std::nullopt});
  graph.SetOutput(&node, 0, result);
  graph.AddNode("Reshape", "",
                {result, graph.AddConstant(node.name + "_back_shape", Tensor::Vector(back))},
                {output}, {}, node.name + "_unflatten");
}

struct RaiseRow {
  const char* op;
  void (*raise)(Graph&, Node&, int from);
};

constexpr RaiseRow kRaises[] = {
    {"Clip", RaiseClip},          {"Pad", RaisePad},         {"Slice", RaiseSlice},
    {"Squeeze", RaiseAxes},       {"Unsqueeze", RaiseAxes},  {"ReduceSum", RaiseAxes},
    {"Split", RaiseSplit},        {"TopK", RaiseTopK},       {"Upsample", RaiseResize},
    {"Resize", RaiseResize},      {"Dropout", RaiseDropout}, {"Softmax", RaiseSoftmax},
    {"LogSoftmax", RaiseSoftmax}, {"Hardmax", RaiseSoftmax},
};

}  // namespace

void RaiseOpset(Graph& graph) {
  const int from = graph.opset();
  if (from >= kWantedOpset) return;
  for (const auto& node : graph.nodes()) {
    if (node->has_subgraph()) {
      Fail(ErrorCode::kUnsupported,
           StrCat("the subgraphs of ", node->op_type, " cannot be raised to opset 13"),
           {.node = node->name, .hint = "convert the model to opset 13 (onnx.version_converter)"});
    }
  }
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  for (Node* node : nodes) {
    if (!node->domain.empty()) continue;
    for (const RaiseRow& row : kRaises) {
      if (node->op_type != row.op) continue;
      row.raise(graph, *node, from);
      break;
    }
  }
  graph.opsets[""] = kWantedOpset;
  graph.RemoveUnusedValues();
  graph.SortTopologically();
}

}  // namespace requant

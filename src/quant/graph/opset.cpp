// Raises a graph of opset 7 or newer to opset 13, 21 or 25. A table has one row for each change of
// an operator's form in between (onnx docs/Changelog.md); all other operators mean the same in
// both.
#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/graph/prepare.h"

namespace requant {
namespace {

void AppendConstant(Graph& graph, Node& node, size_t slot, const char* what, Tensor tensor) {
  graph.SetInput(&node, slot, graph.AddConstant(StrCat(node.name, "_", what), std::move(tensor)));
}

/// Converts an attribute with a list of integers to the input `slot`.
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

/// Upsample and Resize-10 repeat pixel floor(i / scale), which Resize-11 calls asymmetric and
/// floor.
void RaiseResize(Graph& graph, Node& node, int from) {
  if (from >= 11) return;
  Value* scales = node.input(1);
  if (node.op_type == "Upsample") {
    if (node.attributes.Has("scales")) {
      scales = graph.AddConstant(node.name + "_scales",
                                 Tensor::Vector(node.attributes.Floats("scales")));
      node.attributes.Remove("scales");
    }
    node.Retype(Op::kResize);
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

/// Whether all dimensions after the axis are 1, so that the axis alone is the matrix's second
/// dimension before opset 13.
bool IsSingleAxis(const SymbolicShape& shape, int64_t axis) {
  return std::all_of(shape.begin() + axis + 1, shape.end(),
                     [](const Dim& dim) { return dim.known() && dim.value == 1; });
}

/// The shape as the operand of a Reshape, with 0 to copy the dimensions before the axis; nothing if
/// a later dimension is unknown.
std::optional<std::vector<int64_t>> ShapeBack(const SymbolicShape& shape, int64_t axis) {
  std::vector<int64_t> back(static_cast<size_t>(axis), 0);
  for (size_t i = back.size(); i < shape.size(); ++i) {
    if (!shape[i].known()) return std::nullopt;
    back.push_back(shape[i].value);
  }
  return back;
}

/// Before opset 13, Softmax and its relatives worked on the matrix [dims before axis, all others];
/// since then they work along the axis alone. Both agree if all dimensions after the axis are 1.
void RaiseSoftmax(Graph& graph, Node& node, int) {
  Value* input = node.inputs[0];
  const ValueType flat_type{input->type.dtype, std::nullopt};
  int64_t axis = node.attributes.Int("axis", 1);
  std::optional<std::vector<int64_t>> back;
  if (const auto& shape = input->type.shape) {
    const auto rank = static_cast<int64_t>(shape->size());
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank) {
      Fail(ErrorCode::kInvalidModel, StrCat(node.op_type, "'s axis is out of range"),
           {.node = node.name});
    }
    node.attributes.Set("axis", axis);
    if (IsSingleAxis(*shape, axis)) return;
    back = ShapeBack(*shape, axis);
  }
  Value* output = node.outputs[0];
  Value* shape = back ? graph.AddConstant(node.name + "_back_shape", Tensor::Vector(*back))
                      : graph.AddOp("Shape", "", {input}, node.name + "_back_shape",
                                    {DType::kInt64, std::nullopt}, {}, node.name + "_shape");
  AttributeMap flatten;
  flatten.Set("axis", axis);
  Value* matrix = graph.AddOp("Flatten", "", {input}, node.name + "_flat", flat_type,
                              std::move(flatten), node.name + "_flatten");
  node.attributes.Set("axis", int64_t{1});
  graph.SetInput(&node, 0, matrix);
  Value* result = graph.AddValue(node.name + "_matrix", flat_type);
  graph.SetOutput(&node, 0, result);
  graph.AddNode("Reshape", "", {result, shape}, {output}, {}, node.name + "_unflatten");
}

/// From opset 18 on, a Split into equal parts names their number.
void RaiseEqualSplit(Graph&, Node& node, int) {
  if (node.input(1) == nullptr) {
    node.attributes.Set("num_outputs", static_cast<int64_t>(node.outputs.size()));
  }
}

/// Opset 20 renamed the modes.
void RaiseGridSample(Graph&, Node& node, int) {
  const std::string mode = node.attributes.String("mode", "bilinear");
  if (mode == "bilinear") node.attributes.Set("mode", std::string("linear"));
  if (mode == "bicubic") node.attributes.Set("mode", std::string("cubic"));
}

void RaiseDft(Graph& graph, Node& node, int) {
  if (!node.attributes.Has("axis")) node.attributes.Set("axis", int64_t{1});
  const int64_t axis = node.attributes.Int("axis", 1);
  node.attributes.Remove("axis");
  AppendConstant(graph, node, 2, "axis", Tensor::Scalar(axis));
}

/// Before opset 21, scale and bias had one number per group; since then they have one per channel.
void RaiseGroupNormalization(Graph& graph, Node& node, int) {
  const auto& shape = node.inputs[0]->type.shape;
  const int64_t groups = node.attributes.Int("num_groups", 1);
  for (const size_t slot : {size_t{1}, size_t{2}}) {
    const Tensor* given = node.constant(slot);
    if (given == nullptr || given->dtype() != DType::kFloat32 || given->count() != groups ||
        !shape || shape->size() < 2 || !(*shape)[1].known()) {
      Fail(ErrorCode::kUnsupported, "GroupNormalization-18 with these operands cannot be raised",
           {.node = node.name, .hint = "export the model with opset 21 or newer"});
    }
    const int64_t channels = (*shape)[1].value;
    Tensor spread(DType::kFloat32, {channels});
    for (int64_t c = 0; c < channels; ++c) {
      spread.data<float>()[c] = given->data<float>()[c / (channels / groups)];
    }
    AppendConstant(graph, node, slot, slot == 1 ? "scale" : "bias", std::move(spread));
  }
}

/// A change that concerns nodes of an opset before `until` when they are raised to `until` or
/// newer.
struct RaiseRow {
  const char* op;
  int until;
  void (*raise)(Graph&, Node&, int from);
};

constexpr RaiseRow kRaises[] = {
    {"Clip", 13, RaiseClip},
    {"Pad", 13, RaisePad},
    {"Slice", 13, RaiseSlice},
    {"Squeeze", 13, RaiseAxes},
    {"Unsqueeze", 13, RaiseAxes},
    {"ReduceSum", 13, RaiseAxes},
    {"Split", 13, RaiseSplit},
    {"TopK", 13, RaiseTopK},
    {"Upsample", 13, RaiseResize},
    {"Resize", 13, RaiseResize},
    {"Dropout", 13, RaiseDropout},
    {"Softmax", 13, RaiseSoftmax},
    {"LogSoftmax", 13, RaiseSoftmax},
    {"Hardmax", 13, RaiseSoftmax},
    {"ReduceL1", 18, RaiseAxes},
    {"ReduceL2", 18, RaiseAxes},
    {"ReduceLogSum", 18, RaiseAxes},
    {"ReduceLogSumExp", 18, RaiseAxes},
    {"ReduceMax", 18, RaiseAxes},
    {"ReduceMean", 18, RaiseAxes},
    {"ReduceMin", 18, RaiseAxes},
    {"ReduceProd", 18, RaiseAxes},
    {"ReduceSumSquare", 18, RaiseAxes},
    {"Split", 18, RaiseEqualSplit},
    {"GridSample", 20, RaiseGridSample},
    {"DFT", 20, RaiseDft},
    {"GroupNormalization", 21, RaiseGroupNormalization},
};

/// Raises a body by itself, with the types of the captured values. Its other shapes are reset,
/// because they need not hold in every iteration.
void RaiseBody(Graph& body, std::span<Value* const> captured, int wanted) {
  for (const auto& value : body.values()) {
    if (!value->is_constant()) value->type.shape.reset();
  }
  for (const auto& node : body.nodes()) node->typed = false;
  const size_t formal = body.inputs().size() - captured.size();
  for (size_t i = 0; i < captured.size(); ++i) {
    if (captured[i]) body.inputs()[formal + i]->type = captured[i]->type;
  }
  RefreshTypes(body);
  RaiseOpset(body, wanted);
}

void RaiseBodies(Node& node, int from, int wanted) {
  // Scan-8 has sequence lengths and batches, Scan-9 has not
  if (node.op_type == "Scan" && from < 9) {
    Fail(ErrorCode::kUnsupported, "Scan of opset 8 cannot be raised to a newer one",
         {.node = node.name, .hint = "export the model with opset 9 or newer"});
  }
  std::vector<AttributeMap::Entry> raised;
  size_t next = node.formal_inputs();
  for (const auto& [name, attribute] : node.attributes.entries()) {
    const auto* given = std::get_if<Subgraph>(&attribute);
    if (given == nullptr) continue;
    auto body = std::make_shared<Graph>((*given)->Clone());
    RaiseBody(*body, std::span(node.inputs).subspan(next, body->captured), wanted);
    next += body->captured;
    raised.emplace_back(name, Subgraph(std::move(body)));
  }
  for (auto& [name, body] : raised) node.attributes.Set(name, std::move(body));
}

}  // namespace

void RaiseOpset(Graph& graph, int wanted) {
  const int from = graph.opset();
  if (from >= wanted) return;
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  for (Node* node : nodes) {
    if (!node->domain.empty()) continue;
    if (node->has_subgraph()) RaiseBodies(*node, from, wanted);
    const std::string op = node->op_type;  // a row may change it
    for (const RaiseRow& row : kRaises) {
      if (from < row.until && row.until <= wanted && op == row.op) {
        row.raise(graph, *node, from);
      }
    }
  }
  graph.opsets[""] = wanted;
  graph.RemoveUnusedValues();
  graph.SortTopologically();
}

}  // namespace requant

#include "onnx/upgrade.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/op.h"

namespace requant {
namespace {

[[noreturn]] void TooOld(const Node& node, std::string_view why) {
  Fail(ErrorCode::kUnsupported, StrCat(node.op_type, " of an opset before 7 ", why),
       {.node = node.name, .hint = "convert the model to opset 13 (onnx.version_converter)"});
}

[[noreturn]] void Invalid(const Node& node, const std::string& what) {
  Fail(ErrorCode::kInvalidModel, what, {.node = node.name, .hint = "the model is not valid ONNX"});
}

/// The whole numbers of an input that says how to do something, or kUnsupported where a run says
/// it.
std::vector<int64_t> Steering(const Node& node, size_t slot) {
  const Value* value = node.input(slot);
  if (value == nullptr || !value->is_constant()) TooOld(node, "is steered by a value of the run");
  std::vector<int64_t> out;
  for (const double number : value->constant.ToDoubles()) {
    if (!(std::fabs(number) < 1e9)) Invalid(node, StrCat("input ", slot, " holds ", number));
    out.push_back(static_cast<int64_t>(number));
  }
  return out;
}

/// Before: B of shape [dims of A from `axis` on]. After: B with 1s appended so that numpy's
/// alignment at the end does the same.
void Broadcast(Graph& graph, Node* node) {
  const AttributeMap attributes = node->attributes;
  node->attributes.Remove("broadcast");
  node->attributes.Remove("axis");
  if (attributes.Int("broadcast", 0) == 0 || !attributes.Has("axis")) return;
  const Value* a = node->input(0);
  const Value* b = node->input(1);
  if (a == nullptr || b == nullptr || !a->type.shape || !b->type.shape) {
    TooOld(*node, "broadcasts along an axis of a value of unknown rank");
  }
  const auto rank = static_cast<int64_t>(a->type.shape->size());
  int64_t axis = attributes.Int("axis", 0);
  if (axis < 0) axis += rank;
  const auto b_rank = static_cast<int64_t>(b->type.shape->size());
  const int64_t missing = rank - axis - b_rank;
  if (axis < 0 || missing < 0) {
    Invalid(*node, StrCat("axis ", axis, " does not fit the operands"));
  }
  if (missing == 0) return;
  if (!b->is_constant()) {
    std::vector<int64_t> axes;
    for (int64_t i = 0; i < missing; ++i) axes.push_back(b_rank + i);
    AttributeMap attributes_of;
    attributes_of.Set("axes", std::move(axes));
    SymbolicShape shape = *b->type.shape;
    shape.resize(shape.size() + static_cast<size_t>(missing), Dim(1));
    Value* aligned = graph.AddOp("Unsqueeze", "", {node->inputs[1]}, b->name + "_aligned",
                                 {b->type.dtype, shape}, std::move(attributes_of));
    graph.SetInput(node, 1, aligned);
    return;
  }
  Shape shape = b->constant.shape();
  shape.insert(shape.end(), static_cast<size_t>(missing), 1);
  graph.SetInput(node, 1, graph.AddConstant(b->name + "_aligned", b->constant.Reshaped(shape)));
}

/// Before: one slope per channel, of shape [C]. After: [C, 1, ...] as broadcasting wants it.
void PRelu(Graph& graph, Node* node) {
  const Value* x = node->input(0);
  const Value* slope = node->input(1);
  if (slope == nullptr || !slope->type.shape || slope->type.shape->size() != 1) return;
  if (slope->type.IsStatic() && slope->type.StaticShape()[0] == 1) return;
  if (x == nullptr || !x->type.shape || !slope->is_constant()) {
    TooOld(*node, "has slopes for the channels of a value of unknown rank");
  }
  Shape shape = slope->constant.shape();
  shape.resize(std::max<size_t>(1, x->type.shape->size() - 1), 1);
  graph.SetInput(node, 1,
                 graph.AddConstant(slope->name + "_aligned", slope->constant.Reshaped(shape)));
}

/// A normalization or Dropout in test mode, which is all that remains of them.
void Test(Graph&, Node* node) {
  if (node->attributes.Int("is_test", 0) == 0 && node->outputs.size() > 1) {
    TooOld(*node, "is in training mode");
  }
  node->attributes.Remove("is_test");
}

void Gemm(Graph&, Node* node) { node->attributes.Remove("broadcast"); }
void Recurrent(Graph&, Node* node) { node->attributes.Remove("output_sequence"); }

/// Before: factors of height and width. After: one for each dimension.
void Upsample(Graph&, Node* node) {
  const float height = node->attributes.Float("height_scale", 0);
  const float width = node->attributes.Float("width_scale", 0);
  if (!(height > 0) || !(width > 0)) {
    Invalid(*node, "Upsample has no height_scale and width_scale above 0");
  }
  node->attributes.Set("scales", std::vector<float>{1, 1, height, width});
  node->attributes.Remove("height_scale");
  node->attributes.Remove("width_scale");
  const std::string mode = node->attributes.String("mode", "nearest");
  if (mode == "bilinear") node->attributes.Set("mode", std::string("linear"));
}

/// Before: the name of a type in TensorProto.DataType. After: its number.
void Cast(Graph&, Node* node) {
  constexpr const char* kNames[] = {"UNDEFINED", "FLOAT",  "UINT8",  "INT8",   "UINT16",
                                    "INT16",     "INT32",  "INT64",  "STRING", "BOOL",
                                    "FLOAT16",   "DOUBLE", "UINT32", "UINT64"};
  const Attribute* to = node->attributes.Find("to");
  const auto* name = to ? std::get_if<std::string>(to) : nullptr;
  if (name == nullptr) return;
  const auto* found = std::find(std::begin(kNames), std::end(kNames), *name);
  if (found == std::end(kNames) || found == kNames) {
    TooOld(*node, StrCat("to '", *name, "' has no number"));
  }
  node->attributes.Set("to", static_cast<int64_t>(found - kNames));
}

void Concat(Graph&, Node* node) {
  if (!node->attributes.Has("axis")) node->attributes.Set("axis", int64_t{1});
}

void Pad(Graph&, Node* node) {
  const std::vector<int64_t> pads = node->attributes.Ints("paddings");
  if (!pads.empty()) node->attributes.Set("pads", pads);
  node->attributes.Remove("paddings");
}

/// Before: the shape as an attribute. After: as an input.
void Reshape(Graph& graph, Node* node) {
  if (!node->attributes.Has("shape")) return;
  const Tensor shape = Tensor::Vector(node->attributes.Ints("shape"));
  graph.SetInput(node, 1, graph.AddConstant(node->name + "_shape", shape));
  node->attributes.Remove("shape");
}

/// The constants of opset 1 had fewer digits.
void Selu(Graph&, Node* node) {
  if (!node->attributes.Has("alpha")) node->attributes.Set("alpha", 1.6732F);
  if (!node->attributes.Has("gamma")) node->attributes.Set("gamma", 1.0507F);
}

/// Before: the sizes of the parts may be an input. After: an attribute.
void Split(Graph& graph, Node* node) {
  if (node->input(1) == nullptr) return;
  node->attributes.Set("split", Steering(*node, 1));
  graph.SetInput(node, 1, nullptr);
}

/// Before: one number of copies along one axis. After: one for each dimension.
void Tile(Graph& graph, Node* node) {
  const Value* x = node->input(0);
  if (x == nullptr || !x->type.shape) TooOld(*node, "repeats a value of unknown rank");
  const auto rank = static_cast<int64_t>(x->type.shape->size());
  const std::vector<int64_t> copies = Steering(*node, 1), axes = Steering(*node, 2);
  const int64_t axis = axes.empty() ? -1 : axes[0];
  if (copies.empty() || axis < 0 || axis >= rank) {
    Invalid(*node, StrCat("axis ", axis, " does not fit rank ", rank));
  }
  std::vector<int64_t> repeats(static_cast<size_t>(rank), 1);
  repeats[static_cast<size_t>(axis)] = copies[0];
  graph.SetInput(node, 2, nullptr);
  graph.SetInput(node, 1, graph.AddConstant(node->name + "_repeats", Tensor::Vector(repeats)));
}

/// Before: the exponent of a norm is a float. After: an integer.
void Norm(Graph&, Node* node) {
  const Attribute* p = node->attributes.Find("p");
  const auto* real = p ? std::get_if<float>(p) : nullptr;
  if (real == nullptr) return;
  if (*real != std::floor(*real) || !(*real >= 1) || !(*real < 1e6F)) {
    TooOld(*node, StrCat("has the exponent ", *real));
  }
  node->attributes.Set("p", static_cast<int64_t>(*real));
}

struct Row {
  std::string_view op;
  int until;  ///< the opset with the new form
  void (*upgrade)(Graph& graph, Node* node);
};

/// Changes of form before opset 7 (onnx docs/Changelog.md). All other operators are the same from
/// their first version to opset 7, but for `consumed_inputs`, which is about memory.
constexpr Row kRows[] = {
    {"GlobalLpPool", 2, Norm}, {"LpPool", 2, Norm},    {"Pad", 2, Pad},
    {"Split", 2, Split},       {"Concat", 4, Concat},  {"Reshape", 5, Reshape},
    {"Cast", 6, Cast},         {"Selu", 6, Selu},      {"Tile", 6, Tile},
    {"Add", 7, Broadcast},     {"And", 7, Broadcast},  {"BatchNormalization", 7, Test},
    {"Div", 7, Broadcast},     {"Dropout", 7, Test},   {"Equal", 7, Broadcast},
    {"GRU", 7, Recurrent},     {"Gemm", 7, Gemm},      {"Greater", 7, Broadcast},
    {"LSTM", 7, Recurrent},    {"Less", 7, Broadcast}, {"Mul", 7, Broadcast},
    {"Or", 7, Broadcast},      {"PRelu", 7, PRelu},    {"Pow", 7, Broadcast},
    {"RNN", 7, Recurrent},     {"Sub", 7, Broadcast},  {"Upsample", 7, Upsample},
    {"Xor", 7, Broadcast},
};

/// Infers this node's types: ranks of later nodes may depend on them.
void Annotate(const Graph& graph, Node& node) {
  std::vector<ValueType> types;
  try {
    types = InferNode(graph, node);
  } catch (const Error&) {
    return;  // the error is reported when the graph is used
  }
  for (size_t i = 0; i < types.size(); ++i) {
    Value* output = node.outputs[i];
    if (output == nullptr) continue;
    if (output->type.dtype == DType::kUndefined) output->type.dtype = types[i].dtype;
    if (!output->type.shape) output->type.shape = types[i].shape;
  }
}

}  // namespace

void UpgradeOpset(Graph& graph) {
  const auto opset = graph.opsets.find("");
  if (opset == graph.opsets.end() || opset->second >= kOldestKept) return;
  const int version = opset->second;
  opset->second = kOldestKept;
  const size_t count = graph.nodes().size();
  for (size_t i = 0; i < count; ++i) {
    Node* node = graph.nodes()[i].get();
    if (!node->domain.empty()) continue;
    node->attributes.Remove("consumed_inputs");
    for (const Row& row : kRows) {
      if (version < row.until && node->op_type == row.op) row.upgrade(graph, node);
    }
    Annotate(graph, *node);
  }
  graph.SortTopologically();
  graph.RemoveUnusedValues();
}

}  // namespace requant

#include "onnx/upgrade.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/op.h"

namespace requant {
namespace {

constexpr std::string_view kBinary[] = {"Add", "Sub", "Mul",   "Div",  "Pow",    "And",
                                        "Or",  "Xor", "Equal", "Less", "Greater"};
/// Operators that are the same from opset 1 to 7, but for attributes about memory that do not
/// change results.
constexpr std::string_view kUnchanged[] = {
    "Abs",           "AveragePool", "Ceil",      "Constant",  "Conv",      "Div",
    "Elu",           "Exp",         "Flatten",   "Floor",     "Gather",    "GlobalAveragePool",
    "GlobalMaxPool", "HardSigmoid", "Identity",  "LRN",       "LeakyRelu", "Log",
    "LogSoftmax",    "MatMul",      "MaxPool",   "Neg",       "Not",       "Reciprocal",
    "ReduceMax",     "ReduceMean",  "ReduceMin", "ReduceSum", "Relu",      "Selu",
    "Shape",         "Sigmoid",     "Size",      "Softmax",   "Softplus",  "Softsign",
    "Sqrt",          "Squeeze",     "Tanh",      "Transpose", "Unsqueeze"};
/// Operators that opset 7 changed in ways that attributes do not show.
constexpr std::string_view kChanged[] = {"Upsample", "LSTM", "GRU", "RNN"};

[[noreturn]] void TooOld(const Node& node, std::string_view why) {
  Fail(ErrorCode::kUnsupported, StrCat(node.op_type, " of an opset before 7 ", why),
       {.node = node.name, .hint = "convert the model to opset 13 (onnx.version_converter)"});
}

/// Before: B of shape [dims of A from `axis` on]. After: B with 1s appended so that numpy's
/// alignment at the end does the same.
void UpgradeBroadcast(Graph& graph, Node* node) {
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
    Fail(ErrorCode::kInvalidModel, StrCat("axis ", axis, " does not fit the operands"),
         {.node = node->name, .hint = "the model is not valid ONNX"});
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
void UpgradePRelu(Graph& graph, Node* node) {
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
  if (opset == graph.opsets.end() || opset->second > 6) return;
  const bool ancient = opset->second < 6;
  opset->second = 7;
  const size_t count = graph.nodes().size();
  for (size_t i = 0; i < count; ++i) {
    Node* node = graph.nodes()[i].get();
    if (!node->domain.empty()) continue;
    const auto is_one_of = [&node](std::span<const std::string_view> names) {
      return std::find(names.begin(), names.end(), node->op_type) != names.end();
    };
    if (ancient && !is_one_of(kUnchanged)) TooOld(*node, "may mean something else than today");
    if (is_one_of(kChanged)) TooOld(*node, "means something else than in opset 7");
    if (is_one_of(kBinary)) UpgradeBroadcast(graph, node);
    if (node->Is(Op::kPRelu)) UpgradePRelu(graph, node);
    if (node->Is(Op::kGemm)) node->attributes.Remove("broadcast");
    if (node->Is(Op::kBatchNormalization) || node->Is(Op::kDropout)) {
      if (node->attributes.Int("is_test", 0) == 0 && node->outputs.size() > 1) {
        TooOld(*node, "is in training mode");
      }
      node->attributes.Remove("is_test");
    }
    Annotate(graph, *node);
  }
  graph.SortTopologically();
  graph.RemoveUnusedValues();
}

}  // namespace requant

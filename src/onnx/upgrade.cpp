#include "onnx/upgrade.h"

#include <algorithm>
#include <string_view>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

constexpr std::string_view kBinary[] = {"Add", "Sub", "Mul",   "Div",  "Pow",    "And",
                                        "Or",  "Xor", "Equal", "Less", "Greater"};
/// Rewritten in opset 7 in ways that the attributes do not show.
constexpr std::string_view kChanged[] = {"Upsample", "LSTM", "GRU", "RNN"};

[[noreturn]] void TooOld(const Node& node, std::string_view why) {
  Fail(ErrorCode::kUnsupported, StrCat(node.op_type, " of opset 6 ", why),
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
  if (a == nullptr || b == nullptr || !a->type.shape || !b->is_constant()) {
    TooOld(*node, "broadcasts along an axis of a value of unknown rank");
  }
  const auto rank = static_cast<int64_t>(a->type.shape->size());
  int64_t axis = attributes.Int("axis", 0);
  if (axis < 0) axis += rank;
  const int64_t missing = rank - axis - b->constant.rank();
  if (axis < 0 || missing < 0) {
    Fail(ErrorCode::kInvalidModel, StrCat("axis ", axis, " does not fit the operands"),
         {.node = node->name, .hint = "the model is not valid ONNX"});
  }
  if (missing == 0) return;
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

}  // namespace

void UpgradeOpset(Graph& graph) {
  const auto opset = graph.opsets.find("");
  if (opset == graph.opsets.end() || opset->second != 6) return;
  for (const auto& node : graph.nodes()) {
    if (!node->domain.empty()) continue;
    const auto is_one_of = [&node](std::span<const std::string_view> names) {
      return std::find(names.begin(), names.end(), node->op_type) != names.end();
    };
    if (is_one_of(kChanged)) TooOld(*node, "means something else than in opset 7");
    if (is_one_of(kBinary)) UpgradeBroadcast(graph, node.get());
    if (node->Is("PRelu")) UpgradePRelu(graph, node.get());
    if (node->Is("Gemm")) node->attributes.Remove("broadcast");
    if (node->Is("BatchNormalization") || node->Is("Dropout")) {
      if (node->attributes.Int("is_test", 0) == 0 && node->outputs.size() > 1) {
        TooOld(*node, "is in training mode");
      }
      node->attributes.Remove("is_test");
    }
  }
  graph.RemoveUnusedValues();
  opset->second = 7;
}

}  // namespace requant

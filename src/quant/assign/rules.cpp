// Decides, node by node, whether an integer operator can express it.
#include <algorithm>
#include <string_view>

#include "ops/pooling/pool_windows.h"
#include "quant/assign/assign.h"
#include "quant/grid/weight_matrix.h"

namespace requant {
namespace {

const char* WhyFloatWeighted(const Node& node, QuantRule rule) {
  if (const char* why = WhyNoWeightMatrix(node, rule)) return why;
  return node.inputs[0]->is_constant() ? "all its operands are constant" : nullptr;
}

/// Whether the node is a mean over exactly the spatial dimensions.
bool IsGlobalMean(const Node& node) {
  const auto& shape = node.inputs[0]->type.shape;
  if (!shape || shape->size() < 3) return false;
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  if (const Tensor* input = node.constant(1)) axes = input->ToInts();
  if (axes.size() + 2 != shape->size()) return false;
  const auto rank = static_cast<int64_t>(shape->size());
  uint64_t mask = 0;
  for (const int64_t axis : axes) {
    const int64_t positive = axis < 0 ? axis + rank : axis;
    if (positive < 2 || positive >= rank || rank > 60) return false;
    mask |= uint64_t{1} << positive;
  }
  return mask == (uint64_t{1} << rank) - 4;
}

bool IsUnit(const std::vector<int64_t>& values) {
  for (const int64_t value : values) {
    if (value != 1) return false;
  }
  return true;
}

const char* WhyFloatPassive(const Node& node) {
  const Value* data = node.input(0);
  if (data->is_constant()) return "its data is constant";
  if (node.op_type == "MaxPool" && node.output(1)) return "its indices are used";
  if (node.op_type == "GlobalMaxPool") return "its spatial size is unknown";
  if (node.op_type == "MaxPool" && !WindowsHoldData(node.attributes, data->type.shape)) {
    return "a window may hold padding only";
  }
  if (node.op_type == "Resize" || node.op_type == "Upsample") {
    if (node.attributes.String("mode", "nearest") != "nearest") return "it interpolates";
    if (node.attributes.String("coordinate_transformation_mode", "") == "tf_crop_and_resize") {
      return "it extrapolates";
    }
  }
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    const Value* value = node.input(slot);
    // The value of a Pad gets the scale of its data; Resize's scales are not data.
    if (value && value->type.dtype == DType::kFloat32 && !value->is_constant()) {
      return "one of its parameters is computed";
    }
  }
  return nullptr;
}

}  // namespace

QuantRule RuleOf(const Node& node) {
  const OpDef* op = FindOp(node);
  if (op == nullptr) return QuantRule::kFloat;
  if (node.Is(Op::kRelu) || node.Is(Op::kClip)) return QuantRule::kUnary;
  return op->quant;
}

int WeightSlot(const Node& node, QuantRule rule) {
  if (rule == QuantRule::kConv) return 1;
  const Value* b = node.input(1);
  return rule == QuantRule::kMatMul && b && b->is_constant() ? 1 : -1;
}

int BiasSlot(const Node& node, QuantRule rule) {
  if (rule == QuantRule::kConv) return 2;
  return rule == QuantRule::kMatMul && node.op_type == "Gemm" ? 2 : -1;
}

int WeightAxis(const Node& node, QuantRule rule) {
  if (node.Is(Op::kConvTranspose)) {
    // The output axis of a ConvTranspose's weights [in, out / group, ...]: the first if groups have
    // one channel each, else the second, which the groups share.
    const int64_t group = node.attributes.Int("group", 1);
    const Tensor& weights = node.inputs[1]->constant;
    if (group == 1 || weights.dim(1) > 1) return 1;
    return weights.dim(0) == group ? 0 : -1;
  }
  if (rule == QuantRule::kConv) return 0;
  if (rule == QuantRule::kMatMul) return node.attributes.Int("transB", 0) != 0 ? 0 : 1;
  return -1;
}

bool LacksWideForm(const Node& node, QuantRule rule) {
  if (rule == QuantRule::kMatMul) return WeightSlot(node, rule) < 0;
  return rule == QuantRule::kConv &&
         (node.Is(Op::kConvTranspose) || node.inputs[1]->constant.rank() > 4);
}

bool HasFloatForm(const Node& node, QuantRule rule) {
  return WeightSlot(node, rule) >= 0 && !node.Is(Op::kConvTranspose);
}

bool IsTableCandidate(const Node& node, QuantRule rule) {
  if (node.outputs.size() != 1 || node.inputs.empty()) return false;
  constexpr std::string_view kBinary[] = {"Add", "Sub", "Mul", "Div", "Pow", "Min", "Max", "PRelu"};
  bool elementwise = rule == QuantRule::kUnary;
  for (const std::string_view name : kBinary) elementwise = elementwise || node.Is(name);
  if (!elementwise) return false;
  const Value* data = nullptr;
  for (const Value* input : node.inputs) {
    if (input && !input->is_constant()) data = input;
  }
  if (data == nullptr || !data->type.shape) return false;
  for (const Value* input : node.inputs) {
    if (input == nullptr) continue;
    if (!input->is_constant()) {
      // Two operands of one region must not broadcast against each other.
      if (!input->type.shape || input->type.shape->size() != data->type.shape->size()) return false;
      continue;
    }
    if (input->constant.count() != 1 || input->type.dtype != DType::kFloat32 ||
        input->constant.rank() > static_cast<int64_t>(data->type.shape->size())) {
      return false;
    }
  }
  return true;
}

const char* WhyFloat(const Graph&, const Node& node, QuantRule rule,
                     const std::set<const Value*>& soi) {
  const Value* data = node.input(0);
  if (data == nullptr || node.output(0) == nullptr) return "it has no data";
  if (rule == QuantRule::kShape) return "it computes shapes or indices";
  for (const Value* output : node.outputs) {
    if (output && soi.contains(output)) return "it computes shapes or indices";
  }
  const bool table = IsTableCandidate(node, rule);
  const bool mixed =
      std::any_of(node.inputs.begin(), node.inputs.end(),
                  [&soi](const Value* input) { return input && soi.contains(input); });
  constexpr const char* kMixed = "an operand is a shape or an index";
  switch (rule) {
    case QuantRule::kConv:
      return WhyFloatWeighted(node, rule);
    case QuantRule::kMatMul:
      if (!node.Is(Op::kMatMul) || node.input(1) == nullptr || node.input(1)->is_constant()) {
        return WhyFloatWeighted(node, rule);
      }
      return data->is_constant() ? "its first operand is constant" : mixed ? kMixed : nullptr;
    case QuantRule::kAdd:
    case QuantRule::kMul:
      if (node.Is(Op::kAdd) || node.Is(Op::kSub) || node.Is(Op::kMul)) {
        return mixed ? kMixed : nullptr;
      }
      return table ? nullptr : kNoIntegerOperator;
    case QuantRule::kConcat:
      if (!node.Is(Op::kConcat)) return kNoIntegerOperator;
      return mixed ? kMixed : nullptr;
    case QuantRule::kAveragePool:
      if (node.op_type == "ReduceMean") {
        return IsGlobalMean(node) ? nullptr : "it is no mean over all spatial dimensions";
      }
      return IsUnit(node.attributes.Ints("dilations")) ? nullptr : "it is dilated";
    case QuantRule::kPassive:
      if (soi.contains(data)) return "it moves shapes or indices";
      return WhyFloatPassive(node);
    default:
      return table ? nullptr : kNoIntegerOperator;
  }
}

}  // namespace requant

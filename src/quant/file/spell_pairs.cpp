// Before: QLinearConv and its relatives, ConvInteger and MatMulInteger whose sums become floats,
//   and operators that move or clamp the 8-bit integers between them
// After: the float operators between DequantizeLinear and QuantizeLinear
// Conditions: scales and zero points are constants.
// Formula: the definition of every QLinear operator: quantize(f(dequantize(x)...)). A Clip to a
//   narrower range of codes stays on the integers, where remove_pairs.cpp reads it as their width.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/quantized/qonnx.h"
#include "quant/file/spell_pairs.h"
#include "quant/file/speller.h"
#include "quant/grid/affine.h"
#include "tensor/tensor.h"

namespace requant {

/// One kind of QLinear operator. Inputs are triples (integers, scale, zero point); `result` is the
/// slot of the output's scale.
struct QLinearRow {
  const char* name;
  const char* real;
  int triples;
  int result;
  int bias;  // slot, or -1 for none
};

namespace {

constexpr QLinearRow kRows[] = {
    {"QLinearConv", "Conv", 2, 6, 8},
    {"QLinearConvTranspose", "ConvTranspose", 2, 6, 8},
    {"QLinearMatMul", "MatMul", 2, 6, -1},
    {"QGemm", "Gemm", 2, 7, 6},
    {"QLinearAdd", "Add", 2, 6, -1},
    {"QLinearMul", "Mul", 2, 6, -1},
    {"QLinearAveragePool", "AveragePool", 1, 3, -1},
    {"QLinearGlobalAveragePool", "GlobalAveragePool", 1, 3, -1},
    {"QLinearSigmoid", "Sigmoid", 1, 3, -1},
    {"QLinearLeakyRelu", "LeakyRelu", 1, 3, -1},
};

/// Operators that have the same effect on integers and on reals.
constexpr const char* kMovers[] = {
    "Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "MaxPool",      "Slice",  "Gather",
    "Split",   "Expand",  "Tile",    "Concat",    "Identity",  "DepthToSpace", "Resize", "Clip",
};

bool IsInteger(const Value* value) { return value && IsByte(value->type.dtype); }

ValueType RealType(const Value* integers) {
  return {DType::kFloat32,
          integers->is_constant() ? ToSymbolic(integers->constant.shape()) : integers->type.shape};
}

}  // namespace

bool Speller::Run(std::string_view only) {
  std::vector<Node*> nodes;
  for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
  bool any = false;
  for (Node* node : nodes) {
    if (erased_.contains(node)) continue;
    if (!only.empty() && node->op_type != only && !(node->Is(Op::kClip) && IsMade(*node))) continue;
    // A node with several scales has an axis; integers that move then would lose it, so their
    // format is not recorded.
    if (node->Is(Op::kQuantizeLinear) && !(node->constant(1) && node->constant(1)->count() > 1)) {
      formats_[node->outputs[0]] = {node->input(1), node->input(2)};
    }
    const QLinearRow* row =
        std::find_if(std::begin(kRows), std::end(kRows),
                     [node](const QLinearRow& one) { return node->op_type == one.name; });
    if (row != std::end(kRows)) {
      if (!IsSpelled(*node, *row)) continue;
      Compute(*node, *row);
    } else if (node->op_type == "QLinearConcat") {
      Concat(*node);
    } else if (node->Is(Op::kConvInteger) || node->Is(Op::kMatMulInteger)) {
      if (!Sums(*node)) continue;
    } else if (IsInteger(node->output(0)) && IsInteger(node->input(0))) {
      Move(*node);
      continue;
    } else {
      continue;
    }
    any = true;
  }
  graph_.SortTopologically();
  graph_.RemoveUnusedValues();
  return any;
}

/// "x_q" -> "x": our exports append "_q" to the names of integers.
std::string Speller::RealName(const Value* integers) const {
  const std::string& name = integers->name;
  if (name.size() > 2 && name.ends_with("_q")) {
    std::string own = name.substr(0, name.size() - 2);
    if (graph_.FindValue(own) == nullptr) return own;
  }
  return name + "_dq";
}

/// Whether the node reads the result of an operator that this pass replaced before.
bool Speller::IsMade(const Node& node) const {
  const Node* maker = node.inputs[0]->producer;
  return maker && maker->Is(Op::kQuantizeLinear) && made_.contains(maker->inputs[0]);
}

/// Repeats a constant. A QLinear operator may have one scale with many zero points or vice versa;
/// a pair needs equal numbers of both.
Value* Speller::Spread(const Value* one, int64_t count) {
  const Tensor& from = one->constant;
  Tensor out(from.dtype(), {count});
  const auto size = static_cast<size_t>(DTypeBits(from.dtype()) / 8);
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    std::memcpy(static_cast<uint8_t*>(out.raw()) + i * size, from.raw(), size);
  }
  return graph_.AddConstant(one->name + "_spread", std::move(out));
}

Value* Speller::Dequantized(const Node& node, Value* integers, const Format& format, int64_t axis) {
  if (format.scale == nullptr || !format.scale->is_constant()) {
    Fail(ErrorCode::kUnsupported, StrCat("the scale of '", integers->name, "' is computed"),
         {.node = node.name, .value = integers->name});
  }
  AttributeMap attributes;
  if (axis >= 0) attributes.Set("axis", axis);
  Value* scale = format.scale;
  Value* zero_point = format.zero_point;
  if (zero_point && zero_point->is_constant()) {
    const int64_t scales = scale->constant.count();
    const int64_t zeros = zero_point->constant.count();
    if (scales == 1 && zeros > 1) scale = Spread(scale, zeros);
    if (zeros == 1 && scales > 1) zero_point = Spread(zero_point, scales);
  }
  return graph_.AddOp("DequantizeLinear", "", {integers, scale, zero_point}, RealName(integers),
                      RealType(integers), std::move(attributes));
}

/// Replaces `node` by a float operator whose output is rounded to the grid of `format`.
Value* Speller::Replace(Node& node, std::string op_type, std::vector<Value*> inputs,
                        const Format& format, AttributeMap attributes) {
  Value* integers = node.outputs[0];
  const std::string name = node.name;
  Value* result = graph_.AddValue(RealName(integers), RealType(integers));
  made_.insert(result);
  Value* rounded = graph_.AddValue(integers->name + "_new", integers->type);
  graph_.ReplaceAndKeepName(integers, rounded);
  formats_[rounded] = format;
  graph_.EraseNode(&node);
  graph_.AddNode(std::move(op_type), "", std::move(inputs), {result}, std::move(attributes), name);
  graph_.AddNode("QuantizeLinear", "", {result, format.scale, format.zero_point}, {rounded});
  return rounded;
}

/// Whether all operands of the operator can be written as pairs. Computed integers with one grid
/// for each row or column cannot: the operator stays, with the formats of its integers recorded.
bool Speller::IsSpelled(const Node& node, const QLinearRow& row) {
  for (size_t at = 0; at < static_cast<size_t>(row.triples); ++at) {
    const Value* integers = node.inputs[3 * at];
    if (integers->is_constant()) continue;
    for (const size_t slot : {3 * at + 1, 3 * at + 2}) {
      const Tensor* numbers = node.constant(slot);
      if (numbers == nullptr || numbers->count() == 1) continue;
      const auto result = static_cast<size_t>(row.result);
      formats_[node.outputs[0]] = {node.input(result), node.input(result + 1)};
      return false;
    }
  }
  return true;
}

void Speller::Compute(Node& node, const QLinearRow& row) {
  std::vector<Value*> inputs;
  for (size_t at = 0; at < static_cast<size_t>(row.triples); ++at) {
    Value* integers = node.inputs[3 * at];
    const Value* scale = node.input(3 * at + 1);
    int64_t axis = -1;
    const Tensor* zero_point = node.constant(3 * at + 2);
    const int64_t zeros = zero_point ? zero_point->count() : 1;
    if (scale && scale->is_constant() && std::max(scale->constant.count(), zeros) > 1) {
      const bool rows = row.bias == 8 || node.attributes.Int("transB", 0) != 0;
      axis = rows ? 0 : integers->constant.rank() - 1;
      // The channel axis of a ConvTranspose's weights is the first one if each group has one
      // channel.
      const bool transposed = node.op_type == "QLinearConvTranspose";
      if (transposed && integers->constant.dim(1) == std::max(scale->constant.count(), zeros)) {
        axis = 1;
      }
    }
    inputs.push_back(
        Dequantized(node, integers, {node.input(3 * at + 1), node.input(3 * at + 2)}, axis));
  }
  Value* bias = row.bias < 0 ? nullptr : node.input(static_cast<size_t>(row.bias));
  if (bias) inputs.push_back(Bias(node, bias));
  const auto result = static_cast<size_t>(row.result);
  AttributeMap attributes = node.attributes;
  attributes.Remove("channels_last");
  // QGemm's alpha multiplies the products and the addend alike.
  if (bias && attributes.Has("alpha")) attributes.Set("beta", attributes.Float("alpha", 1));
  Replace(node, row.real, std::move(inputs), {node.input(result), node.input(result + 1)},
          std::move(attributes));
}

/// The bias, whose int32 integers have the scale of the products.
Value* Speller::Bias(const Node& node, Value* integers) {
  const Tensor* a = node.constant(1);
  const Tensor* b = node.constant(4);
  if (a == nullptr || b == nullptr) {
    Fail(ErrorCode::kUnsupported, "a bias of computed scale", {.node = node.name});
  }
  const std::vector<float> own = b->ToFloats();
  // Groups of a ConvTranspose may share their scales.
  const auto count = own.size() > 1 ? integers->constant.count() : 1;
  std::vector<float> scales;
  for (size_t i = 0; i < static_cast<size_t>(count); ++i) {
    scales.push_back(own[i % own.size()] * a->ToFloats()[0]);
  }
  Value* scale = graph_.AddConstant(integers->name + "_scale",
                                    Tensor::FromVector(scales, count > 1 ? Shape{count} : Shape{}));
  return Dequantized(node, integers, {scale, nullptr}, count > 1 ? 0 : -1);
}

void Speller::Concat(Node& node) {
  std::vector<Value*> inputs;
  for (size_t at = 2; at + 2 < node.inputs.size(); at += 3) {
    inputs.push_back(Dequantized(node, node.inputs[at], {node.input(at + 1), node.input(at + 2)}));
  }
  Replace(node, "Concat", std::move(inputs), {node.input(0), node.input(1)}, node.attributes);
}

void Speller::Move(Node& node) {
  const auto known = formats_.find(node.inputs[0]);
  const bool listed = std::any_of(std::begin(kMovers), std::end(kMovers),
                                  [&node](const char* name) { return node.Is(name); });
  if (known == formats_.end() || !listed || node.outputs.size() != 1) {
    Fail(ErrorCode::kUnsupported,
         StrCat("nothing says what the integers of '", node.outputs[0]->name, "' stand for"),
         {.node = node.name, .value = node.outputs[0]->name});
  }
  const Format format = known->second;
  const Node* maker = node.inputs[0]->producer;
  if (node.Is(Op::kClip) && maker && maker->Is(Op::kQuantizeLinear) && !IsMade(node)) {
    formats_[node.outputs[0]] = format;  // a pair of the file itself
    return;
  }
  if (node.Is(Op::kClip) && Limit(node, format)) return;
  std::vector<Value*> inputs = node.inputs;
  for (Value*& input : inputs) {
    if (IsInteger(input)) input = Dequantized(node, input, format);
  }
  Replace(node, node.op_type, std::move(inputs), format, node.attributes);
}

/// Replaces a Clip of a layer's output by its activation, or keeps it as the codes of fewer bits.
/// Returns false for other Clips.
bool Speller::Limit(Node& clip, const Format& format) {
  Value* integers = clip.inputs[0];
  Node* maker = integers->producer;
  const Tensor* low = clip.constant(1);
  const Tensor* high = clip.constant(2);
  const Value* zero_point = format.zero_point;
  if (low == nullptr || high == nullptr || zero_point == nullptr || !zero_point->is_constant() ||
      !format.scale->is_constant() || !maker->Is(Op::kQuantizeLinear) ||
      !made_.contains(maker->inputs[0]) || graph_.SoleConsumer(integers) != &clip) {
    return false;
  }
  const int64_t begin = low->AsInt64(0);
  const int64_t end = high->AsInt64(0);
  const int64_t zero = zero_point->constant.AsInt64(0);
  const DType dtype = low->dtype();
  const bool is_signed = dtype == DType::kInt8;
  const int64_t least_end = is_signed ? 0 : 1;  // one bit: -1 and 0, or 0 and 1
  const bool narrow = end >= least_end && end < StorageMax(dtype) &&
                      std::has_single_bit(static_cast<uint64_t>(end) + 1);
  Value* real = maker->inputs[0];
  Value* result = clip.outputs[0];
  const std::string name = clip.name;
  if (narrow && (is_signed ? begin == -end || begin == -end - 1 : begin == 0)) {
    formats_[result] = format;
    // The quantized value gets the name of the last of its integers.
    if (result->name.ends_with("_q")) graph_.RenameValue(real, RealName(result));
    return true;
  }
  const bool relu = begin == zero && (narrow || end == StorageMax(dtype));
  std::vector<Value*> inputs = {real};
  const auto scale = format.scale->constant.AsDouble(0);
  for (const int64_t code : {begin, end}) {
    if (relu) break;
    const double bound = static_cast<double>(code - zero) * scale;
    inputs.push_back(
        graph_.AddConstant(name + "_bound", Tensor::Scalar(static_cast<float>(bound))));
  }
  const std::string real_name = RealName(result);
  Value* most = clip.inputs[2];
  const bool limits = relu && narrow;
  Value* last = limits ? graph_.AddValue(result->name + "_limited", result->type) : integers;
  graph_.ReplaceAndKeepName(result, last);
  graph_.EraseNode(&clip);
  if (limits) {
    // A Relu does not tell whether the lowest code was in use; by default it is not.
    Tensor least(dtype, {});
    *static_cast<uint8_t*>(least.raw()) = static_cast<uint8_t>(is_signed ? -end : 0);
    graph_.AddNode("Clip", "", {integers, graph_.AddConstant("least", std::move(least)), most},
                   {last});
  }
  Value* active =
      graph_.AddOp(relu ? "Relu" : "Clip", "", std::move(inputs), real_name, real->type, {}, name);
  made_.insert(active);
  graph_.SetInput(maker, 0, active);
  formats_[last] = format;
  return true;
}

bool SpellPairs(Graph& graph, std::string_view only) { return Speller(graph).Run(only); }

}  // namespace requant

// Before: ConvInteger or MatMulInteger, Cast, Mul and maybe Add
// After:  DequantizeLinear of both operands, and the float layer
// Conditions: the integers of the input have a known scale, weights and factors are constants.
// Formula: the scale of the weights is the factor of Mul divided by that of the input.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "quant/file/speller.h"
#include "tensor/tensor.h"

namespace requant {
namespace {

/// The zero point of an input: 0 if it has none, nothing if it is computed.
std::optional<int64_t> ZeroPoint(const Node& node, size_t slot) {
  if (node.input(slot) == nullptr) return 0;
  const Tensor* zero = node.constant(slot);
  if (zero == nullptr || zero->count() != 1) return std::nullopt;
  return zero->AsInt64(0);
}

/// The only consumer of the value, if it is an operator of the given type with a constant as its
/// other input.
Node* Next(const Graph& graph, const Value* value, const char* op_type) {
  Node* next = graph.SoleConsumer(value);
  if (next == nullptr || !next->Is(op_type) || next->inputs.size() != 2) return nullptr;
  return next->inputs[next->inputs[0] == value ? 1 : 0]->is_constant() ? next : nullptr;
}

/// The constant operand, if it holds one float for all channels or one for each, with `rank`
/// trailing dimensions of 1.
const Tensor* PerChannel(const Node& node, const Value* other, int64_t channels, int64_t rank) {
  const Tensor& numbers = node.inputs[node.inputs[0] == other ? 1 : 0]->constant;
  if (numbers.dtype() != DType::kFloat32) return nullptr;
  if (numbers.count() == 1) return &numbers;
  const bool behind = numbers.rank() > rank && numbers.dim(numbers.rank() - 1 - rank) == channels;
  return behind && numbers.count() == channels ? &numbers : nullptr;
}

/// The scale whose product with `input` is exactly `product` in float: the quotient, or a
/// neighbor of it.
float ScaleOf(float product, float input) {
  const float quotient = product / input;
  for (const float towards : {0.0F, std::numeric_limits<float>::max()}) {
    const float neighbour = std::nextafter(quotient, towards);
    if (quotient * input != product && neighbour * input == product) return neighbour;
  }
  return quotient;
}

Tensor BiasOf(const Tensor& addends, int64_t channels) {
  std::vector<float> numbers = addends.ToFloats();
  numbers.resize(static_cast<size_t>(channels), numbers[0]);
  return Tensor::FromVector(numbers, {channels});
}

}  // namespace

/// Replaces ConvInteger or MatMulInteger with its Cast, Mul and perhaps Add, the form in which
/// layers that write floats are exported. Returns false, changing nothing, for other forms.
bool Speller::Sums(Node& node) {
  const auto known = formats_.find(node.inputs[0]);
  const Tensor* integers = node.constant(1);
  const std::optional<int64_t> zero = ZeroPoint(node, 2);
  if (known == formats_.end() || integers == nullptr || !zero) return false;
  const Tensor* weight_zeros = node.constant(3);
  if (node.input(3) && weight_zeros == nullptr) return false;
  const Format input = known->second;
  if (!input.scale->is_constant() || input.scale->constant.count() != 1) return false;
  const bool own_zero = input.zero_point != nullptr;
  if (own_zero && !input.zero_point->is_constant()) return false;
  if (*zero != (own_zero ? input.zero_point->constant.AsInt64(0) : 0)) return false;

  const bool conv = node.Is(Op::kConvInteger);
  if (integers->rank() < 2 || (!conv && integers->rank() != 2)) return false;
  const int64_t channels = integers->dim(conv ? 0 : 1);
  const int64_t rank = conv ? integers->rank() - 2 : 0;
  Node* cast = graph_.SoleConsumer(node.outputs[0]);
  if (cast == nullptr || !cast->Is(Op::kCast)) return false;
  Node* product = Next(graph_, cast->outputs[0], "Mul");
  if (product == nullptr) return false;
  const Tensor* factors = PerChannel(*product, cast->outputs[0], channels, rank);
  if (factors == nullptr) return false;
  Node* sum = Next(graph_, product->outputs[0], "Add");
  const Tensor* addends = sum ? PerChannel(*sum, product->outputs[0], channels, rank) : nullptr;

  const float of_input = input.scale->constant.ToFloats()[0];
  std::vector<float> scales = factors->ToFloats();
  for (float& scale : scales) scale = ScaleOf(scale, of_input);
  int64_t count = static_cast<int64_t>(scales.size());
  const int64_t zeros_count = weight_zeros ? weight_zeros->count() : 1;
  if (zeros_count != 1 && zeros_count != channels) return false;
  scales.resize(static_cast<size_t>(std::max(zeros_count, count)), scales[0]);
  count = static_cast<int64_t>(scales.size());
  const auto shaped = [&](const auto& numbers) {
    return Tensor::FromVector(numbers, count > 1 ? Shape{count} : Shape{});
  };
  const std::string& name = node.inputs[1]->name;
  const auto differs = [](int64_t one) { return one != 0; };
  const std::vector<int64_t> offsets =
      weight_zeros ? weight_zeros->ToInts() : std::vector<int64_t>();
  Value* zeros = std::any_of(offsets.begin(), offsets.end(), differs)
                     ? node.inputs[3]
                     : graph_.AddConstant(name + "_zero_point", Tensor(integers->dtype(), {}));
  const Format weights{graph_.AddConstant(name + "_scale", shaped(scales)), zeros};
  std::vector<Value*> inputs = {
      Dequantized(node, node.inputs[0], input),
      Dequantized(node, node.inputs[1], weights, count > 1 ? (conv ? 0 : 1) : -1)};
  if (addends) inputs.push_back(graph_.AddConstant(name + "_bias", BiasOf(*addends, channels)));

  Value* result = (addends ? sum : product)->outputs[0];
  Value* made = graph_.AddValue(result->name + "_new", result->type);
  graph_.ReplaceAndKeepName(result, made);
  const std::string own_name = node.name;
  const AttributeMap attributes = node.attributes;
  for (Node* old : {addends ? sum : nullptr, product, cast, &node}) {
    if (old == nullptr) continue;
    erased_.insert(old);
    graph_.EraseNode(old);
  }
  // A MatMul has no bias, and a Gemm takes only matrices.
  const auto& shape = inputs[0]->type.shape;
  const bool matrix = shape && shape->size() == 2;
  if (conv || !addends || matrix) {
    const char* real = conv ? "Conv" : addends ? "Gemm" : "MatMul";
    graph_.AddNode(real, "", std::move(inputs), {made}, attributes, own_name);
    return true;
  }
  Value* bias = inputs.back();
  inputs.pop_back();
  Value* plain = graph_.AddOp("MatMul", "", std::move(inputs), made->name + "_product", made->type,
                              {}, own_name);
  graph_.AddNode("Add", "", {plain, bias}, {made});
  return true;
}

}  // namespace requant

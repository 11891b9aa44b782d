// Integers between the nodes of QONNX
//
// A Conv, MatMul or Gemm of quantized values by quantized constants becomes ConvInteger or
// MatMulInteger of their codes, times the product of the scales: the sums are exact, and few bits
// have kernels of their own. The operators behind it (BatchNormalization, the next Quant) stay as
// they are.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ops/op.h"
#include "ops/quantized/qonnx.h"
#include "ops/quantized/qonnx_rules.h"
#include "ops/shape/select.h"

namespace requant {

using qonnx::Along;
using qonnx::Limits;
using qonnx::LimitsOf;
using qonnx::RoundHalfEven;
using qonnx::RoundingOf;

namespace {

/// How one node codes values: real = scale * code, without a zero point.
struct Coding {
  bool bipolar;  // the code is -1 or 1, the sign
  int32_t low, high;
  const Tensor* scale;
  DType dtype() const { return low < 0 ? DType::kInt8 : DType::kUint8; }
};

std::optional<Coding> CodingOf(const Node& node) {
  const bool bipolar = node.op_type == "BipolarQuant";
  if (!bipolar && node.op_type != "Quant" && node.op_type != "IntQuant") return std::nullopt;
  const Tensor* scale = node.constant(1);
  if (scale == nullptr || scale->dtype() != DType::kFloat32) return std::nullopt;
  for (const float value : scale->ToFloats()) {
    if (!(value > 0) || !std::isfinite(value)) return std::nullopt;
  }
  if (bipolar) return Coding{true, -1, 1, scale};
  const Tensor* zero = node.constant(2);
  const Tensor* bits = node.constant(3);
  if (zero == nullptr || bits == nullptr || bits->count() != 1 ||
      RoundingOf(node, "ROUND") != RoundHalfEven) {
    return std::nullopt;
  }
  for (const float value : zero->ToFloats()) {
    if (value != 0) return std::nullopt;
  }
  const float width = bits->ToFloats()[0];
  if (!(width >= 1 && width <= 8)) return std::nullopt;
  if (width == 1 && node.attributes.Int("signed", 1) != 0) return Coding{true, -1, 1, scale};
  const Limits limits = LimitsOf(node, width);
  return Coding{false, static_cast<int32_t>(limits.low), static_cast<int32_t>(limits.high), scale};
}

class IntegerRewriter {
 public:
  explicit IntegerRewriter(Graph& graph) : graph_(graph) {}

  bool Run() {
    std::vector<Node*> products;
    for (const auto& node : graph_.nodes()) {
      if (node->Is(Op::kConv) || node->Is(Op::kMatMul) || node->Is(Op::kGemm))
        products.push_back(node.get());
    }
    bool changed = false;
    for (Node* node : products) changed = Rewrite(*node) || changed;
    if (!changed) return false;
    graph_.opsets[kRequantDomain] = 1;
    if (graph_.opset() < 10) graph_.opsets[""] = 10;  // MatMulInteger and QuantizeLinear need it
    graph_.SortTopologically();
    return true;
  }

 private:
  struct Activation {
    Value* codes;
    float scale;
  };
  struct Weights {
    Tensor codes, scales;  // both of one shape
  };

  Value* Constant(const std::string& name, DType dtype, const void* bytes, Shape shape) {
    Tensor tensor(dtype, std::move(shape));
    std::memcpy(tensor.raw(), bytes, tensor.bytes());
    return graph_.AddConstant(name, std::move(tensor));
  }

  /// The codes of a value that a Quant node computes, perhaps behind operators that move it.
  std::optional<Activation> ActivationOf(const Value* value) {
    Node* node = value->producer;
    if (node == nullptr) return std::nullopt;
    if (const auto found = activations_.find(node); found != activations_.end()) {
      return found->second;
    }
    ValueType type = value->type;
    if (node->Is(Op::kReshape) || node->Is(Op::kFlatten) || node->Is(Op::kTranspose)) {
      const auto source = ActivationOf(node->input(0));
      if (!source) return std::nullopt;
      type.dtype = source->codes->type.dtype;
      std::vector<Value*> inputs = node->inputs;
      inputs[0] = source->codes;
      Value* moved = graph_.AddOp(node->op_type, "", inputs, value->name + "_codes", type);
      moved->producer->attributes = node->attributes;
      return activations_[node] = Activation{moved, source->scale};
    }
    const auto coding = CodingOf(*node);
    if (!coding || coding->scale->count() != 1 || node->input(0)->is_constant()) {
      return std::nullopt;
    }
    const float scale = coding->scale->ToFloats()[0];
    // With a tiny scale every value but zero saturates, so only its sign is left.
    const float step = coding->bipolar ? std::ldexp(1.0F, -99) : scale;
    type.dtype = coding->dtype();
    const uint8_t zero = 0;
    Value* codes = graph_.AddOp("QuantizeLinear", "",
                                {node->inputs[0], Constant("step", DType::kFloat32, &step, {}),
                                 Constant("zero", type.dtype, &zero, {})},
                                value->name + "_codes", type);
    std::array<uint8_t, 256> table;
    for (int32_t bits = 0; bits < 256; ++bits) {
      const int32_t code = type.dtype == DType::kInt8 && bits > 127 ? bits - 256 : bits;
      const int32_t inside =
          coding->bipolar ? (code < 0 ? -1 : 1) : std::clamp(code, coding->low, coding->high);
      table[static_cast<size_t>(bits)] = static_cast<uint8_t>(inside);
    }
    Value* entries = Constant("codes", type.dtype, table.data(), {256});
    codes = graph_.AddOp("Lut", kRequantDomain, {codes, entries}, value->name + "_codes", type);
    return activations_[node] = Activation{codes, scale};
  }

  std::optional<Weights> WeightsOf(const Value* value) {
    const Node* node = value->producer;
    if (node == nullptr) return std::nullopt;
    if (node->Is(Op::kTranspose)) {
      const auto source = WeightsOf(node->input(0));
      if (!source) return std::nullopt;
      const auto move = [&](const Tensor& tensor) {
        return EvaluateNode(graph_, *node, std::vector<const Tensor*>{&tensor},
                            RequantizeMode::kUpward)[0];
      };
      return Weights{move(source->codes), move(source->scales)};
    }
    const auto coding = CodingOf(*node);
    if (!coding || coding->high > 127 || node->constant(0) == nullptr) return std::nullopt;
    std::vector<const Tensor*> inputs;
    for (const Value* input : node->inputs) inputs.push_back(&input->constant);
    const Tensor reals = EvaluateNode(graph_, *node, inputs, RequantizeMode::kUpward)[0];
    if (reals.shape() != node->constant(0)->shape()) return std::nullopt;
    Weights out{Tensor(DType::kInt8, reals.shape()), Tensor(DType::kFloat32, reals.shape())};
    const Along scales(*coding->scale, reals.shape());
    for (size_t i = 0; i < static_cast<size_t>(reals.count()); ++i) {
      out.scales.data<float>()[i] = scales[i];
      out.codes.data<int8_t>()[i] =
          static_cast<int8_t>(std::nearbyint(reals.data<float>()[i] / scales[i]));
    }
    return out;
  }

  bool Rewrite(Node& node) {
    const bool conv = node.Is(Op::kConv), gemm = node.Is(Op::kGemm);
    const bool plain_gemm = node.attributes.Float("alpha", 1) == 1 &&
                            node.attributes.Float("beta", 1) == 1 &&
                            node.attributes.Int("transA", 0) == 0;
    if (gemm && !plain_gemm) return false;
    const Tensor* bias = node.constant(2);
    if (conv && node.input(2) && bias == nullptr) return false;
    auto weights = WeightsOf(node.input(1));
    if (!weights) return false;
    if (gemm && node.attributes.Int("transB", 0) != 0) {
      weights = Weights{Permute(weights->codes, {1, 0}), Permute(weights->scales, {1, 0})};
    }
    const Shape& shape = weights->codes.shape();
    if (conv ? shape.size() < 3 : shape.size() != 2) return false;
    // Every output has one scale, which repeats `step` times: for the rest of a row, or a column.
    const int64_t outputs = shape[conv ? 0 : 1];
    const int64_t count = weights->codes.count();
    std::vector<float> scales(static_cast<size_t>(outputs));
    const float* all = weights->scales.data<float>();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t o = conv ? i / (count / outputs) : i % outputs;
      float& scale = scales[static_cast<size_t>(o)];
      if (scale != 0 && scale != all[i]) return false;
      scale = all[i];
    }
    const auto activation = ActivationOf(node.input(0));
    if (!activation) return false;
    for (float& scale : scales) scale *= activation->scale;

    const ValueType real = node.output()->type;
    ValueType integer = real;
    integer.dtype = DType::kInt32;
    const std::string name = node.output()->name;
    Value* codes = graph_.AddConstant(name + "_weights", weights->codes);
    Value* sums = graph_.AddOp(conv ? "ConvInteger" : "MatMulInteger", "",
                               {activation->codes, codes}, name + "_sums", integer);
    if (conv) sums->producer->attributes = node.attributes;
    Value* floats = graph_.AddOp("Cast", "", {sums}, name + "_floats", real);
    floats->producer->attributes.Set("to", int64_t{1});
    Shape along = {outputs};
    if (conv) along.resize(shape.size() - 1, 1);
    Value* result = graph_.AddOp(
        "Mul", "", {floats, Constant(name + "_scale", DType::kFloat32, scales.data(), along)},
        name + "_scaled", real);
    if (Value* term = node.input(2) ? node.inputs[2] : nullptr) {
      if (conv) term = graph_.AddConstant(name + "_bias", bias->Reshaped(along));
      result = graph_.AddOp("Add", "", {result, term}, name + "_biased", real);
    }
    graph_.ReplaceAndKeepName(node.outputs[0], result);
    graph_.EraseNode(&node);
    return true;
  }

  Graph& graph_;
  std::map<const Node*, Activation> activations_;
};

}  // namespace

bool RewriteToIntegers(Graph& graph) { return SpellQdq(graph) || IntegerRewriter(graph).Run(); }

}  // namespace requant

// Fragments of random graphs: operators without effect, and quantization.
#include <algorithm>

#include "support/random_graphs/random_graph.h"

namespace requant {

Value* GraphMaker::Neutral() {
  Value* x = Pick();
  if (dice_.Chance(50)) return Add("Identity", {x});
  if (opset_ >= 12 || dice_.Chance(50)) return Add("Dropout", {x});
  return Add("Dropout", {x}, With({{"ratio", 0.5F}}), 2);
}

Value* GraphMaker::Cast() {
  Value* x = Pick();
  const DType middle = smooth_ || dice_.Chance(60) ? DType::kFloat64 : DType::kInt32;
  Value* other = Add("Cast", {x}, With({{"to", static_cast<int64_t>(middle)}}));
  if (other == nullptr) return nullptr;
  return Add("Cast", {other}, With({{"to", static_cast<int64_t>(DType::kFloat32)}}));
}

Value* GraphMaker::QuantizePair() {
  if (smooth_ || opset_ < 10) return nullptr;
  Value* x = Pick();
  const bool is_unsigned = dice_.Chance(50);
  Tensor zero(is_unsigned ? DType::kUint8 : DType::kInt8, {});
  *static_cast<uint8_t*>(zero.raw()) = is_unsigned ? dice_.Of<uint8_t>({0, 128, 3}) : 0;
  Value* scale = Constant(Tensor::Scalar(dice_.Of({0.03125F, 0.1F, 0.007F})));
  Value* zero_point = Constant(std::move(zero));
  Value* y = x;
  for (int64_t pairs = dice_.In(1, 2); pairs > 0 && y; --pairs) {
    Value* integers = Add("QuantizeLinear", {y, scale, zero_point});
    if (integers && dice_.Chance(30)) {
      integers = Add("Reshape", {integers, Ints({0, -1})});
    }
    y = integers ? Add("DequantizeLinear", {integers, scale, zero_point}) : nullptr;
    if (y && pairs > 1 && dice_.Chance(50)) y = Add("Transpose", {y});
    if (y && pairs > 1 && Known(y).rank() == 4 && dice_.Chance(40)) {
      y = Add("MaxPool", {y}, With({{"kernel_shape", std::vector<int64_t>{2, 2}}}));
    }
  }
  return y;
}

Value* GraphMaker::RowCodes() {
  if (smooth_ || opset_ < 11) return nullptr;
  Value* x = Pick();
  if (ShapeOf(x).empty()) return nullptr;
  limit_ = 1e6;  // of codes and their sums
  const auto reduced = [&](const char* op) -> Value* {
    if (opset_ >= 18) return Add(op, {x, Ints({-1})});
    return Add(op, {x}, With({{"axes", std::vector<int64_t>{-1}}}));
  };
  Value *none = Constant(Tensor::Scalar(uint8_t{0})), *one = Scalar(1), *zero = Scalar(0);
  /// Adds an operator unless one before could not be added.
  const auto then = [&](const char* op, const std::vector<Value*>& inputs,
                        AttributeMap attributes = {}) -> Value* {
    const bool all =
        std::all_of(inputs.begin(), inputs.end(), [](Value* v) { return v != nullptr; });
    return all ? Add(op, inputs, std::move(attributes)) : nullptr;
  };
  const auto cast = [&](Value* value, DType to) {
    return then("Cast", {value}, With({{"to", static_cast<int64_t>(to)}}));
  };
  Value* lo = then("Min", {reduced("ReduceMin"), zero});
  Value* hi = then("Max", {reduced("ReduceMax"), zero});
  Value* step = then("Mul", {then("Sub", {hi, lo}), Scalar(1.0F / 255)});
  Value* scale = then("Max", {step, Scalar(1e-30F)});
  Value* share = then("Neg", {then("Div", {lo, scale})});
  Value* zeros = then("QuantizeLinear", {share, one, none});
  Value* steps = then("Round", {then("Div", {x, scale})});
  Value* codes =
      then("QuantizeLinear", {then("Add", {steps, cast(zeros, DType::kFloat32)}), one, none});
  const int64_t k = ShapeOf(x).back(), n = dice_.In(1, 4);
  Tensor weights(DType::kInt8, {k, n}), sums(DType::kInt32, {n});
  for (int64_t i = 0; i < k * n; ++i) {
    const int64_t weight = dice_.In(-128, 127);
    weights.data<int8_t>()[i] = static_cast<int8_t>(weight);
    sums.data<int32_t>()[i % n] += static_cast<int32_t>(weight);
  }
  Value* product = then("MatMulInteger", {codes, Constant(std::move(weights))});
  Value* less = then("Mul", {cast(zeros, DType::kInt32), Constant(std::move(sums))});
  Value* real = cast(then("Sub", {product, less}), DType::kFloat32);
  Value* scaled = then("Mul", {real, Floats({n}, 0.001F, 0.01F)});
  limit_ = 50;
  Value* y = then("Mul", {scaled, scale});
  return dice_.Chance(50) ? then("Add", {y, Floats({n})}) : y;
}

/// The computation of an existing node again.
Value* GraphMaker::Repeat() {
  if (graph().nodes().empty()) return nullptr;
  const Node& node = *graph().nodes()[static_cast<size_t>(
      dice_.In(0, static_cast<int64_t>(graph().nodes().size()) - 1))];
  const std::vector<Value*> inputs = node.inputs;
  return Add(node.op_type, inputs, node.attributes, node.outputs.size());
}

/// A branch of an If: one operator on the captured value and a constant.
Subgraph GraphMaker::BranchBody(const Value* captured) {
  auto body = std::make_shared<Graph>();
  body->opsets = graph().opsets;
  body->captured = 1;
  Value* x = body->AddValue("outer", captured->type);
  body->AddInput(x);
  Value* c = body->AddConstant("c", Tensor::Scalar(dice_.Unit()));
  Value* y = dice_.Chance(80)
                 ? body->AddOp(dice_.Of<std::string>({"Add", "Mul", "Sub"}), "", {x, c}, "y", {})
                 : x;
  body->AddOutput(y);
  return body;
}

Value* GraphMaker::Branch() {
  Value* a = Pick();
  Value* b = dice_.Chance(20) ? Scalar(dice_.Unit()) : Pick();
  Value* condition = Constant(Tensor::Scalar(dice_.Chance(50)));
  if (dice_.Chance(40)) {
    Value* x = Pick();
    Value* first = x ? Add("ReduceMax", {x}, With({{"keepdims", int64_t{0}}})) : nullptr;
    if (first == nullptr) return nullptr;
    // A branch is a jump, too: in smooth graphs no value comes close to the border.
    const float border = dice_.Unit();
    condition = Add("Greater", {first, Scalar(smooth_ ? 1000 * border : border)});
  }
  if (a == nullptr || b == nullptr || condition == nullptr) return nullptr;
  AttributeMap bodies = With({{"then_branch", BranchBody(a)}, {"else_branch", BranchBody(b)}});
  return Add("If", {condition, a, b}, std::move(bodies));
}

Value* GraphMaker::ConstantNode() {
  Tensor tensor(DType::kFloat32, {1});
  tensor.data<float>()[0] = dice_.Unit();
  Value* made = Add("Constant", {}, With({{"value", tensor}}));
  return made ? Add("Mul", {Pick(), made}) : nullptr;
}

}  // namespace requant

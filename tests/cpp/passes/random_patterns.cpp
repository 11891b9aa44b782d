// Fragments of random graphs: functions as exporters write them out in several operators.
#include "passes/random_graph.h"

namespace requant {

Value* GraphMaker::LayerNorm() {
  Value* x = Pick();
  if (ShapeOf(x).empty()) return nullptr;
  const int64_t width = ShapeOf(x).back();
  AttributeMap attributes = With({{"axes", std::vector<int64_t>{-1}}});
  std::vector<Value*> axes;
  if (opset_ >= 18) {
    attributes = {};
    axes = {Ints({-1})};
  }
  const auto mean_of = [&](Value* value) {
    std::vector<Value*> inputs = {value};
    inputs.insert(inputs.end(), axes.begin(), axes.end());
    return value ? Add("ReduceMean", inputs, attributes) : nullptr;
  };
  Value* mean = mean_of(x);
  Value* centered = mean ? Add("Sub", {x, mean}) : nullptr;
  if (centered == nullptr) return nullptr;
  Value* square =
      dice_.Chance(50) ? Add("Pow", {centered, Scalar(2)}) : Add("Mul", {centered, centered});
  Value* variance = mean_of(square);
  Value* shifted = variance ? Add("Add", {variance, Scalar(0.125F)}) : nullptr;
  Value* deviation = shifted ? Add("Sqrt", {shifted}) : nullptr;
  Value* normal = deviation ? Add("Div", {centered, deviation}) : nullptr;
  if (normal && dice_.Chance(80)) normal = Add("Mul", {normal, Floats({width})});
  if (normal && dice_.Chance(80)) normal = Add("Add", {normal, Floats({width})});
  return normal;
}

/// Activations as exporters write them out.
Value* GraphMaker::Decomposed() {
  Value* x = Pick();
  const auto mul = [&](Value* a, Value* b) {
    if (a == nullptr || b == nullptr) return static_cast<Value*>(nullptr);
    return dice_.Chance(50) ? Add("Mul", {a, b}) : Add("Mul", {b, a});
  };
  const auto add = [&](Value* a, Value* b) {
    if (a == nullptr || b == nullptr) return static_cast<Value*>(nullptr);
    return dice_.Chance(50) ? Add("Add", {a, b}) : Add("Add", {b, a});
  };
  const auto unary = [&](const char* op, Value* a) { return a ? Add(op, {a}) : nullptr; };
  switch (dice_.In(0, 5)) {
    case 0:  // SiLU
      return mul(x, unary("Sigmoid", x));
    case 1: {  // HardSwish, HardSigmoid
      Value* shifted = add(x, Scalar(3));
      if (shifted == nullptr) return nullptr;
      Value* gate = opset_ < 11 ? Add("Clip", {shifted}, With({{"min", 0.0F}, {"max", 6.0F}}))
                                : Add("Clip", {shifted, Constant(Tensor::Scalar(0.0F)),
                                               Constant(Tensor::Scalar(6.0F))});
      if (gate && dice_.Chance(60)) gate = mul(gate, x);
      return gate ? Add("Div", {gate, Scalar(6)}) : nullptr;
    }
    case 2:
    case 3: {  // Gelu
      Value* inner =
          dice_.Chance(50) ? Add("Div", {x, Scalar(1.41421354F)}) : mul(x, Scalar(0.707106769F));
      Value* gate = add(unary("Erf", inner), Scalar(1));
      return dice_.Chance(50) ? mul(mul(x, gate), Scalar(0.5F)) : mul(mul(x, Scalar(0.5F)), gate);
    }
    case 4: {  // Gelu by tanh
      Value* cube = Add("Pow", {x, Scalar(3)});
      Value* inner = mul(add(x, mul(cube, Scalar(0.044715F))), Scalar(0.797884583F));
      Value* gate = add(unary("Tanh", inner), Scalar(1));
      return mul(mul(x, Scalar(0.5F)), gate);
    }
    default:  // Mish
      return mul(x, unary("Tanh", unary("Softplus", x)));
  }
}

}  // namespace requant

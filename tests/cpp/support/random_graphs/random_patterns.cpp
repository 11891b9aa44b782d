// Fragments of random graphs: functions that exporters decompose into several operators.
#include "support/random_graphs/random_graph.h"

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

/// Activations as exporters decompose them.
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

Value* GraphMaker::Atrous() {
  Value* x = Pick(4);
  if (x == nullptr) return nullptr;
  // Sizes are multiples of the block, and the excess is cropped after the convolution.
  const int64_t batch = ShapeOf(x)[0];
  const int64_t channels = ShapeOf(x)[1];
  std::vector<int64_t> pads(8, 0);
  for (size_t i : {size_t{2}, size_t{3}}) pads[i + 4] = ShapeOf(x)[i] % 2;
  const bool odd = pads[6] + pads[7] > 0;
  if (odd && opset_ < 11) return nullptr;
  if (odd) x = Add("Pad", {x, Ints(pads)});
  if (x == nullptr) return nullptr;
  const int64_t h = ShapeOf(x)[2] / 2;
  const int64_t w = ShapeOf(x)[3] / 2;
  const std::vector<int64_t> swap = {1, 0, 2, 3};
  const bool depth = dice_.Chance(50);
  const bool right = dice_.Chance(85);  // else a pattern that is no atrous convolution
  Value* small = nullptr;
  if (depth) {
    Value* turned = Add("Transpose", {x}, With({{"perm", swap}}));
    Value* blocks =
        turned ? Add("SpaceToDepth", {turned}, With({{"blocksize", int64_t{2}}})) : nullptr;
    small = blocks ? Add("Transpose", {blocks}, With({{"perm", swap}})) : nullptr;
  } else {
    Value* parts = Add("Reshape", {x, Ints({batch, channels, h, 2, w, 2})});
    Value* turned =
        parts ? Add("Transpose", {parts}, With({{"perm", std::vector<int64_t>{3, 5, 0, 1, 2, 4}}}))
              : nullptr;
    small = turned ? Add("Reshape", {turned, Ints({4 * batch, channels, h, w})}) : nullptr;
  }
  if (small == nullptr) return nullptr;
  const int64_t rows = dice_.In(1, 2);
  const int64_t kernel = dice_.In(1, 3);
  AttributeMap attributes = With({{"kernel_shape", std::vector<int64_t>{kernel, 1}}});
  if (dice_.Chance(60)) attributes.Set("pads", std::vector<int64_t>{kernel / 2, 0, kernel / 2, 0});
  Value* made = Add("Conv", {small, Floats({rows, channels, kernel, 1})}, attributes);
  if (made == nullptr) return nullptr;
  const int64_t out_h = ShapeOf(made)[2];
  const int64_t out_w = ShapeOf(made)[3];
  Value* result = nullptr;
  if (depth) {
    Value* turned = Add("Transpose", {made}, With({{"perm", swap}}));
    AttributeMap back = With({{"blocksize", int64_t{2}}});
    if (!right && opset_ >= 11) back.Set("mode", std::string("CRD"));
    Value* whole = turned ? Add("DepthToSpace", {turned}, back) : nullptr;
    result = whole ? Add("Transpose", {whole}, With({{"perm", swap}})) : nullptr;
  } else {
    Value* parts = Add("Reshape", {made, Ints({2, 2, batch, rows, out_h, out_w})});
    Value* turned = nullptr;
    if (parts) {
      const std::vector<int64_t> back =
          right ? std::vector<int64_t>{2, 3, 4, 0, 5, 1} : std::vector<int64_t>{2, 3, 4, 1, 5, 0};
      turned = Add("Transpose", {parts}, With({{"perm", back}}));
    }
    result = turned ? Add("Reshape", {turned, Ints({batch, rows, 2 * out_h, 2 * out_w})}) : nullptr;
  }
  if (result && odd && kernel % 2 == 1) return SliceOf(result, 0, ShapeOf(result)[2] - 1, 2, 1);
  return result;
}

Value* GraphMaker::GroupNorm() {
  Value* x = Pick(dice_.Chance(60) ? 4 : 3);
  if (x == nullptr || dice_.Chance(40)) {
    x = Pick();
    if (Known(x).rank() < 2) return nullptr;
    const int64_t axis = Known(x).rank() == 4 && dice_.Chance(50) ? 1 : -1;
    return Add("LpNormalization", {x}, With({{"axis", axis}, {"p", dice_.In(1, 5) / 2 + 1}}));
  }
  const int64_t channels = ShapeOf(x)[1];
  const int64_t groups = channels % 2 == 0 ? 2 : 1;
  const int64_t parameters = opset_ >= 21 ? channels : groups;
  if (opset_ >= 18 && dice_.Chance(50)) {
    return Add("GroupNormalization", {x, Floats({parameters}), Floats({parameters})},
               With({{"num_groups", groups}, {"epsilon", 0.1F}}));
  }
  return Add("InstanceNormalization", {x, Floats({channels}), Floats({channels})},
             With({{"epsilon", 0.1F}}));
}

Value* GraphMaker::ScaledLayer() {
  Value* x = Pick(4);
  if (x == nullptr) return nullptr;
  const auto through = [&](Value* value) {
    if (value == nullptr) return value;
    switch (dice_.In(0, 4)) {
      case 0:
        return Add("Relu", {value});
      case 1:
        return Add("LeakyRelu", {value}, With({{"alpha", 0.25F}}));
      case 2:
        return Add("GlobalAveragePool", {value});
      case 3:
        return Add("MaxPool", {value}, With({{"kernel_shape", std::vector<int64_t>{2, 2}}}));
      default:
        return Add("AveragePool", {value}, With({{"kernel_shape", std::vector<int64_t>{2, 1}}}));
    }
  };
  const auto scaled = [&](Value* value) {
    if (value == nullptr) return value;
    const float low = dice_.Chance(80) ? 0.5F : -1.0F;
    Value* factor = dice_.Chance(50) ? Floats({ShapeOf(value)[1], 1, 1}, low, 1.5F)
                                     : Scalar(dice_.Chance(80) ? 0.75F : -0.5F);
    return Add("Mul", {value, factor});
  };
  const int64_t channels = ShapeOf(x)[1];
  Value* weights = Floats({dice_.In(1, 3), channels, 1, 1});
  if (dice_.Chance(50)) {
    Value* y = through(scaled(x));
    return y ? Add("Conv", {y, weights}) : nullptr;
  }
  Value* y = Add("Conv", {x, weights});
  if (y) y = through(y);
  if (y && dice_.Chance(40)) y = through(y);
  return scaled(y);
}

Value* GraphMaker::ExpandByShape() {
  // PyTorch exports expand(-1, n) like this: -1 stands for the existing size.
  Value* x = Pick();
  if (ShapeOf(x).size() < 2) return nullptr;
  Value* shape = Add("Shape", {x});
  if (shape == nullptr) return nullptr;
  Value* one = Constant(Tensor::Scalar<int64_t>(dice_.In(1, 2)));
  Value* scaled = Add("Mul", {shape, one});
  if (scaled && dice_.Chance(50)) scaled = Add("Div", {scaled, one});
  Tensor ones(DType::kInt64, {1});
  ones.data<int64_t>()[0] = 1;
  Value* filled = Add("ConstantOfShape", {Ints({static_cast<int64_t>(ShapeOf(x).size())})},
                      With({{"value", ones}}));
  Value* asked = Ints(std::vector<int64_t>(ShapeOf(x).size(), dice_.Chance(50) ? -1 : 1));
  Value* minus = filled ? Add("Mul", {filled, Constant(Tensor::Scalar<int64_t>(-1))}) : nullptr;
  Value* same = minus ? Add("Equal", {dice_.Chance(50) ? asked : scaled, minus}) : nullptr;
  Value* target = same ? Add("Where", {same, filled, scaled}) : nullptr;
  return target ? Add("Expand", {x, target}) : nullptr;
}

}  // namespace requant

// Fragments of random graphs: layers, windows and reductions.
#include "support/random_graphs/random_graph.h"

#include <algorithm>

namespace requant {

AttributeMap GraphMaker::Window(int64_t kernel_h, int64_t kernel_w, bool dilated) {
  AttributeMap out = With({{"kernel_shape", std::vector<int64_t>{kernel_h, kernel_w}}});
  if (dice_.Chance(30)) out.Set("strides", std::vector<int64_t>{dice_.In(1, 2), dice_.In(1, 2)});
  if (dilated && dice_.Chance(20)) {
    out.Set("dilations", std::vector<int64_t>{dice_.In(1, 2), dice_.In(1, 2)});
  }
  if (dice_.Chance(40)) {
    out.Set("pads", std::vector<int64_t>{dice_.In(0, kernel_h - 1), dice_.In(0, kernel_w - 1),
                                         dice_.In(0, kernel_h - 1), dice_.In(0, kernel_w - 1)});
  } else if (dice_.Chance(15)) {
    out.Set("auto_pad", dice_.Of<std::string>({"VALID", "SAME_UPPER", "SAME_LOWER"}));
  }
  return out;
}

Value* GraphMaker::Conv() {
  Value* x = Pick(4);
  if (x == nullptr) return nullptr;
  const int64_t channels = ShapeOf(x)[1];
  const int64_t group = dice_.Chance(30) ? channels : channels % 2 == 0 && dice_.Chance(20) ? 2 : 1;
  const int64_t h = dice_.In(1, 3);
  const int64_t w = dice_.Chance(60) ? h : dice_.In(1, 3);
  AttributeMap attributes = Window(h, w, true);
  if (group > 1) attributes.Set("group", group);
  // Siblings: more layers with the same window on the same value.
  const int64_t siblings = dice_.Chance(20) ? dice_.In(2, 3) : 1;
  std::vector<Value*> made;
  for (int64_t i = 0; i < siblings; ++i) {
    const int64_t rows = group * dice_.In(1, 2);
    Value* weights = Floats({rows, channels / group, h, w});
    Value* bias = MaybeBias(rows);
    std::vector<Value*> inputs = {x, weights};
    if (bias) inputs.push_back(bias);
    if (Value* y = Add("Conv", inputs, attributes)) made.push_back(y);
  }
  if (made.empty()) return nullptr;
  for (size_t i = 1; i < made.size(); ++i) pool_.push_back(made[i]);
  return made[0];
}

Value* GraphMaker::ConvTranspose() {
  Value* x = Pick(4);
  if (x == nullptr) return nullptr;
  const int64_t h = dice_.In(1, 2);
  const int64_t rows = dice_.In(1, 2);
  std::vector<Value*> inputs = {x, Floats({ShapeOf(x)[1], rows, h, h})};
  if (Value* bias = MaybeBias(rows)) inputs.push_back(bias);
  return Add("ConvTranspose", inputs, With({{"strides", std::vector<int64_t>{h, h}}}));
}

Value* GraphMaker::Dense() {
  Value* x = Pick(dice_.Chance(60) ? 2 : dice_.In(2, 4));
  if (x == nullptr) return nullptr;
  const int64_t depth = ShapeOf(x).back();
  const int64_t siblings = dice_.Chance(25) ? dice_.In(2, 3) : 1;
  const bool gemm = Known(x).rank() == 2 && dice_.Chance(50);
  const int64_t trans_b = dice_.In(0, 1);
  AttributeMap attributes;
  if (gemm) {
    if (trans_b) attributes.Set("transB", int64_t{1});
    if (dice_.Chance(20)) attributes.Set("alpha", 0.5F);
    if (dice_.Chance(20)) attributes.Set("beta", 0.25F);
    if (dice_.Chance(15)) attributes.Set("transA", int64_t{1});
  }
  const int64_t inner = attributes.Has("transA") ? ShapeOf(x)[0] : depth;
  Value* last = nullptr;
  for (int64_t i = 0; i < siblings; ++i) {
    const int64_t columns = dice_.In(1, 4);
    std::vector<Value*> inputs = {
        x, Floats(gemm && trans_b ? Shape{columns, inner} : Shape{inner, columns})};
    if (gemm && dice_.Chance(60)) inputs.push_back(Floats({columns}));
    Value* y = Add(gemm ? "Gemm" : "MatMul", inputs, attributes);
    if (y && !gemm && dice_.Chance(50)) {
      Value* bias = Floats({columns});
      y = dice_.Chance(50) ? Add("Add", {y, bias}) : Add("Add", {bias, y});
    }
    if (last) pool_.push_back(last);
    last = y;
  }
  return last;
}

/// A product of two dynamic operands.
Value* GraphMaker::Product() {
  Value* a = Pick(dice_.In(2, 4));
  if (a == nullptr) return nullptr;
  std::vector<int64_t> perm;
  for (int64_t i = 0; i < Known(a).rank(); ++i) perm.push_back(i);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  Value* b = Add("Transpose", {a}, With({{"perm", perm}}));
  if (b == nullptr) return nullptr;
  Value* scores = Add("MatMul", {a, b});
  if (scores && dice_.Chance(60)) {
    Value* other = Add("Abs", {b});
    if (Value* sibling = other ? Add("MatMul", {a, other}) : nullptr) pool_.push_back(sibling);
  }
  if (scores && dice_.Chance(60)) scores = Add("Mul", {scores, Scalar(0.5F)});
  if (scores && dice_.Chance(50)) scores = Add("Softmax", {scores}, With({{"axis", int64_t{-1}}}));
  return scores && dice_.Chance(50) ? Add("MatMul", {scores, a}) : scores;
}

Value* GraphMaker::Normalization() {
  Value* x = Pick(dice_.Chance(70) ? 4 : dice_.In(2, 3));
  if (x == nullptr) return nullptr;
  const int64_t channels = ShapeOf(x)[1];
  Value* scale = Floats({channels}, 0.5F, 1.5F);
  Value* bias = Floats({channels});
  if (Known(x).rank() > 2 && dice_.Chance(10)) {
    return Add("InstanceNormalization", {x, scale, bias}, With({{"epsilon", 0.1F}}));
  }
  return Add("BatchNormalization",
             {x, scale, bias, Floats({channels}), Floats({channels}, 0.5F, 2)});
}

Value* GraphMaker::Pool() {
  Value* x = Pick(4);
  if (x == nullptr) return nullptr;
  switch (dice_.In(0, 4)) {
    case 0:
      return Add("GlobalAveragePool", {x});
    case 1: {
      const Shape& shape = ShapeOf(x);
      return Add("AveragePool", {x},
                 With({{"kernel_shape", std::vector<int64_t>{shape[2], shape[3]}}}));
    }
    default:
      break;
  }
  AttributeMap attributes = Window(dice_.In(1, 3), dice_.In(1, 3), false);
  if (opset_ >= 10 && dice_.Chance(15)) attributes.Set("ceil_mode", int64_t{1});
  if (dice_.Chance(50)) return Add("MaxPool", {x}, attributes);
  if (dice_.Chance(30)) attributes.Set("count_include_pad", int64_t{1});
  return Add("AveragePool", {x}, attributes);
}

Value* GraphMaker::Reduce() {
  Value* x = Pick();
  const int64_t rank = Known(x).rank();
  if (rank == 0) return nullptr;
  std::vector<int64_t> axes;
  for (int64_t axis = dice_.In(0, rank - 1); axis < rank; ++axis) axes.push_back(axis);
  if (dice_.Chance(30)) axes[0] -= rank;
  const std::string op =
      dice_.Of<std::string>({"ReduceMean", "ReduceMean", "ReduceSum", "ReduceMax"});
  AttributeMap attributes;
  if (dice_.Chance(50)) attributes.Set("keepdims", dice_.In(0, 1));
  std::vector<Value*> inputs = {x};
  if (opset_ >= 18 || (opset_ >= 13 && op == "ReduceSum")) {
    inputs.push_back(Ints(axes));
  } else {
    attributes.Set("axes", axes);
  }
  return Add(op, inputs, attributes);
}

}  // namespace requant

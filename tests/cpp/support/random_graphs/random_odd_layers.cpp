// Fragments of random graphs that are hard to quantize: layers whose weights are no matrix, or are
// computed, dead or shared; layers of constants; ranges without use.
#include "support/random_graphs/random_graph.h"

#include <algorithm>
#include <cmath>

namespace requant {

/// Weights of a layer: ordinary ones, with rows of zeros, all zeros, tiny ones, or one large.
Value* GraphMaker::OddWeights(const Shape& shape) {
  Value* value = Floats(shape);
  auto* data = value->constant.data<float>();
  const int64_t count = value->constant.count();
  const int64_t kind = dice_.In(0, 11);
  const int64_t row = shape.empty() ? 1 : std::max<int64_t>(1, count / shape[0]);
  for (int64_t i = 0; i < count; ++i) {
    if (kind == 0) data[i] = 0;
    if (kind == 1 && i / row % 2 == 0) data[i] = 0;
    if (kind == 2) data[i] *= 1e-12F;
    if (kind == 3 && i / row % 2 == 0) data[i] *= 1e-20F;
    if (kind == 4) data[i] = data[i] < 0 ? -1.0F : 1.0F;
  }
  if (kind == 5 && count > 0) data[0] = 20;
  if (kind == 6 && count > 1) data[count / 2] = 1e-38F;
  known_[value] = value->constant;
  return value;
}

/// A product with a vector on either side.
Value* GraphMaker::VectorProduct() {
  Value* x = Pick(dice_.In(1, 4));
  if (x == nullptr) return nullptr;
  const Shape& shape = ShapeOf(x);
  if (dice_.Chance(70) || shape.size() < 2) {
    Value* right =
        dice_.Chance(70) ? OddWeights({shape.back()}) : OddWeights({shape.back(), dice_.In(1, 4)});
    return Add("MatMul", {x, right});
  }
  return Add("MatMul", {OddWeights({shape[shape.size() - 2]}), x});
}

/// Weights that are a batch of matrices, one for all inputs or one for each.
Value* GraphMaker::BatchedWeights() {
  Value* x = Pick(dice_.In(1, 4));
  if (x == nullptr) return nullptr;
  const Shape& shape = ShapeOf(x);
  Shape weights = {dice_.In(1, 3), shape.back(), dice_.In(1, 4)};
  if (shape.size() > 2) weights[0] = dice_.Chance(50) ? 1 : shape[shape.size() - 3];
  if (dice_.Chance(20)) weights.insert(weights.begin(), dice_.In(1, 2));
  Value* y = Add("MatMul", {x, OddWeights(weights)});
  return y && dice_.Chance(30) ? Add("Add", {y, Floats({weights.back()})}) : y;
}

/// A Gemm with any attributes.
Value* GraphMaker::AnyGemm() {
  Value* x = Pick(2);
  if (x == nullptr) return nullptr;
  const bool trans_a = dice_.Chance(30), trans_b = dice_.Chance(40);
  const int64_t rows = ShapeOf(x)[trans_a ? 1 : 0], depth = ShapeOf(x)[trans_a ? 0 : 1];
  const int64_t columns = dice_.In(1, 4);
  AttributeMap attributes;
  if (trans_a) attributes.Set("transA", int64_t{1});
  if (trans_b) attributes.Set("transB", int64_t{1});
  if (dice_.Chance(30)) attributes.Set("alpha", dice_.Of({0.5F, -1.0F, 2.0F, 0.0F}));
  if (dice_.Chance(30)) attributes.Set("beta", dice_.Of({0.5F, -1.0F, 0.0F}));
  std::vector<Value*> inputs = {
      x, OddWeights(trans_b ? Shape{columns, depth} : Shape{depth, columns})};
  if (dice_.Chance(75)) {
    inputs.push_back(OddWeights(
        dice_.Of<Shape>({{columns}, {1, columns}, {rows, 1}, {rows, columns}, {1}, {}, {1, 1}})));
  }
  if (dice_.Chance(10)) inputs[1] = Add("Mul", {inputs[1], ScalarOf(x)});
  if (inputs.size() > 2 && dice_.Chance(15)) inputs[2] = Add("Mul", {inputs[2], ScalarOf(x)});
  return inputs[1] ? Add("Gemm", inputs, attributes) : nullptr;
}

/// A single number that depends on the value.
Value* GraphMaker::ScalarOf(Value* x) {
  const int64_t rank = Known(x).rank();
  if (rank == 0) return x;
  std::vector<int64_t> axes;
  for (int64_t axis = 0; axis < rank; ++axis) axes.push_back(axis);
  AttributeMap attributes = With({{"keepdims", int64_t{0}}});
  if (opset_ >= 18) return Add("ReduceMean", {x, Ints(axes)}, attributes);
  attributes.Set("axes", axes);
  return Add("ReduceMean", {x}, attributes);
}

/// Convolutions or transposed ones of one to three dimensions, in groups, with computed or shared
/// weights.
Value* GraphMaker::AnyConv() {
  Value* x = Pick(dice_.In(3, 4));
  if (x == nullptr) return nullptr;
  if (Known(x).rank() == 4 && dice_.Chance(35)) x = UnsqueezeOf(x, {2});
  if (x == nullptr) return nullptr;
  const Shape& shape = ShapeOf(x);
  const size_t spatial = shape.size() - 2;
  const int64_t channels = shape[1];
  const int64_t group = dice_.Chance(30) ? channels : channels % 2 == 0 && dice_.Chance(30) ? 2 : 1;
  const bool transposed = dice_.Chance(35);
  const int64_t per_group = dice_.In(1, 3), rows = per_group * group;
  Shape weights = transposed ? Shape{channels, per_group} : Shape{rows, channels / group};
  std::vector<int64_t> strides, dilations, pads;
  for (size_t i = 0; i < spatial; ++i) {
    weights.push_back(dice_.In(1, std::min<int64_t>(3, shape[i + 2])));
    strides.push_back(dice_.Chance(30) ? 2 : 1);
    dilations.push_back(dice_.Chance(15) ? 2 : 1);
    pads.push_back(dice_.Chance(30) ? dice_.In(0, weights.back() - 1) : 0);
  }
  pads.insert(pads.end(), pads.begin(), pads.end());
  AttributeMap attributes = With({{"strides", strides}, {"dilations", dilations}, {"pads", pads}});
  if (group > 1) attributes.Set("group", group);
  if (transposed && dice_.Chance(25)) {
    std::vector<int64_t> more;
    for (const int64_t stride : strides) more.push_back(dice_.In(0, stride - 1));
    attributes.Set("output_padding", more);
  }
  std::vector<Value*> inputs = {x, OddWeights(weights)};
  if (dice_.Chance(60)) inputs.push_back(OddWeights({rows}));
  if (dice_.Chance(8)) inputs[1] = Add("Mul", {inputs[1], ScalarOf(x)});
  if (inputs.size() > 2 && dice_.Chance(8)) inputs[2] = Add("Mul", {inputs[2], ScalarOf(x)});
  if (inputs[1] == nullptr) return nullptr;
  const char* op = transposed ? "ConvTranspose" : "Conv";
  Value* y = Add(op, inputs, attributes);
  if (y && dice_.Chance(15)) {
    if (Value* sibling = Add(op, {x, inputs[1]}, attributes)) pool_.push_back(sibling);
  }
  return y;
}

/// A layer of constants alone, which another operator may read, or which is an output.
Value* GraphMaker::ConstantLayer() {
  Value* y = nullptr;
  switch (dice_.In(0, 4)) {
    case 0:
      y = Add("Gemm", {OddWeights({2, 3}), OddWeights({3, 4}), OddWeights({4})});
      break;
    case 1:
      y = Add("Conv", {OddWeights({2, 2, 4, 4}), OddWeights({3, 2, 3, 3})});
      break;
    case 2:
      y = Add("ConvTranspose", {OddWeights({1, 2, 3, 3}), OddWeights({2, 3, 2, 2})});
      break;
    case 3:
      y = Add("MatMul", {OddWeights({2, 3}), OddWeights({3})});
      break;
    default:
      y = Add("MatMul", {OddWeights({4, 3}), OddWeights({3, 5})});
  }
  if (y && dice_.Chance(50)) y = Add("Relu", {y});
  if (y == nullptr || dice_.Chance(40)) return y;
  Value* x = Pick();
  Value* sum = Add("Mul", {x, ScalarOf(y)});
  if (sum) pool_.push_back(y);
  return sum;
}

/// A range far from the values: a clamp that cuts off everything, or a value that is always the
/// same.
Value* GraphMaker::OddRange() {
  Value* x = Pick();
  if (x == nullptr) return nullptr;
  switch (dice_.In(0, 6)) {
    case 0:
      return Add("Mul", {x, Scalar(0.0F)});
    case 1: {
      Value* zero = Add("Mul", {x, Scalar(0.0F)});
      return zero ? Add("Add", {zero, Scalar(dice_.Of({1.0F, -3.0F, 1e-30F}))}) : nullptr;
    }
    case 2:
      return Add("Mul", {x, Scalar(dice_.Of({1e-30F, 1e-8F, 1e-38F}))});
    case 3: {
      Value* other = Add(dice_.Of<std::string>({"Add", "Mul", "Sub"}), {x, x});
      if (other == nullptr) return nullptr;
      x = other;
      break;
    }
    case 4: {
      Value* other = Known(x).rank() == 4 ? Add("GlobalAveragePool", {x}) : nullptr;
      if (other == nullptr) return nullptr;
      x = other;
      break;
    }
    default:
      break;
  }
  const float high = dice_.Of({1e-9F, 1e-12F, 1e-4F, 1e-30F});
  if (opset_ < 11) return Add("Clip", {x}, With({{"min", 0.0F}, {"max", high}}));
  return Add("Clip", {x, Scalar(0.0F), Scalar(high)});
}

Value* GraphMaker::AddOdd() {
  switch (dice_.In(0, 5)) {
    case 0:
      return VectorProduct();
    case 1:
      return BatchedWeights();
    case 2:
      return AnyGemm();
    case 3:
      return AnyConv();
    case 4:
      return ConstantLayer();
    default:
      return OddRange();
  }
}

}  // namespace requant

// Fragments of random graphs: operators that move or select elements.
#include "support/random_graphs/random_graph.h"

#include <algorithm>

#include "ops/elementwise/cast.h"

namespace requant {

Value* GraphMaker::Transpose() {
  Value* x = Pick();
  const size_t rank = ShapeOf(x).size();
  std::vector<int64_t> perm;
  for (size_t i = 0; i < rank; ++i) perm.push_back(static_cast<int64_t>(i));
  if (rank == 4 && dice_.Chance(60)) {
    perm = dice_.Chance(50) ? std::vector<int64_t>{0, 2, 3, 1} : std::vector<int64_t>{0, 3, 1, 2};
  } else {
    for (size_t i = rank; i > 1; --i) {
      std::swap(perm[i - 1], perm[static_cast<size_t>(dice_.In(0, static_cast<int64_t>(i) - 1))]);
    }
  }
  if (dice_.Chance(10)) {  // a constant of 16 bits
    const DType dtype = dice_.Of({DType::kFloat16, DType::kBfloat16});
    Value* half = Constant(CastTensor(Known(Floats(ShapeOf(x))), dtype));
    Value* moved = Add("Transpose", {half}, With({{"perm", perm}}));
    return moved ? Add("Cast", {moved}, With({{"to", int64_t{1}}})) : nullptr;
  }
  return dice_.Chance(10) ? Add("Transpose", {x}) : Add("Transpose", {x}, With({{"perm", perm}}));
}

Value* GraphMaker::Reshape() {
  Value* x = Pick();
  const Shape& shape = ShapeOf(x);
  std::vector<int64_t> target;
  switch (dice_.In(0, 5)) {
    case 0:
      target = {-1};
      break;
    case 1:
      target = {0, -1};
      break;
    case 2:
      target = shape;
      break;
    case 3:
      target = shape;
      if (target.size() > 1) target.insert(target.begin() + 1, 1);
      if (!target.empty()) target[0] = -1;
      break;
    case 4:
      if (shape.size() < 3) return nullptr;
      target = {0, 0, -1};
      break;
    default:
      return ReshapeByShape(x);
  }
  return Add("Reshape", {x, Ints(target)});
}

/// A Reshape whose target is computed as exporters do: Shape -> Gather / Slice -> Concat.
Value* GraphMaker::ReshapeByShape(Value* x) {
  if (ShapeOf(x).size() < 2) return nullptr;
  Value* shape = Add("Shape", {x});
  if (shape == nullptr) return nullptr;
  Value* head = nullptr;
  if (dice_.Chance(50)) {
    Value* dim = Add("Gather", {shape, Constant(Tensor::Scalar<int64_t>(0))});
    head = dim ? UnsqueezeOf(dim, {0}) : nullptr;
  } else {
    head = SliceOf(shape, 0, dice_.In(1, 2), 0, 1);
  }
  if (head && dice_.Chance(20)) return Add("Reshape", {x, shape});
  Value* target = head ? Add("Concat", {head, Ints({-1})}, With({{"axis", int64_t{0}}})) : nullptr;
  return target ? Add("Reshape", {x, target}) : nullptr;
}

Value* GraphMaker::UnsqueezeOf(Value* x, const std::vector<int64_t>& axes) {
  if (opset_ >= 13) return Add("Unsqueeze", {x, Ints(axes)});
  return Add("Unsqueeze", {x}, With({{"axes", axes}}));
}

Value* GraphMaker::SqueezeOrUnsqueeze() {
  Value* x = Pick();
  const auto rank = Known(x).rank();
  std::vector<int64_t> ones;
  for (int64_t i = 0; i < rank; ++i) {
    if (ShapeOf(x)[static_cast<size_t>(i)] == 1) ones.push_back(i);
  }
  if (ones.empty() || dice_.Chance(40))
    return rank < 4 ? UnsqueezeOf(x, {dice_.In(0, rank)}) : nullptr;
  if (opset_ >= 13) return Add("Squeeze", {x, Ints(ones)});
  return Add("Squeeze", {x}, With({{"axes", ones}}));
}

Value* GraphMaker::Flatten() {
  Value* x = Pick();
  return Add("Flatten", {x}, With({{"axis", dice_.In(0, Known(x).rank())}}));
}

Value* GraphMaker::SliceOf(Value* x, int64_t start, int64_t end, int64_t axis, int64_t step) {
  if (opset_ < 10) {
    return Add("Slice", {x},
               With({{"starts", std::vector<int64_t>{start}},
                     {"ends", std::vector<int64_t>{end}},
                     {"axes", std::vector<int64_t>{axis}}}));
  }
  std::vector<Value*> inputs = {x, Ints({start}), Ints({end}), Ints({axis})};
  if (step != 1) inputs.push_back(Ints({step}));
  return Add("Slice", inputs);
}

Value* GraphMaker::Slice() {
  Value* x = Pick();
  if (ShapeOf(x).empty()) return nullptr;
  const int64_t axis = dice_.In(0, Known(x).rank() - 1);
  const int64_t size = ShapeOf(x)[static_cast<size_t>(axis)];
  if (dice_.Chance(15)) return SliceOf(x, 0, INT64_MAX, axis, 1);
  if (dice_.Chance(10)) return SliceOf(x, -1, INT64_MIN, axis, -1);
  const int64_t start = dice_.In(-size, size - 1);
  return SliceOf(x, start, dice_.Chance(40) ? INT64_MAX : dice_.In(-size, size), axis,
                 opset_ >= 10 ? dice_.In(1, 2) : 1);
}

Value* GraphMaker::Concat() {
  Value* x = Pick();
  if (ShapeOf(x).empty()) return nullptr;
  const int64_t axis = dice_.In(0, Known(x).rank() - 1);
  std::vector<Value*> inputs = {x};
  for (Value* value : pool_) {
    if (inputs.size() < 3 && dice_.Chance(60) && Known(value).rank() == Known(x).rank()) {
      inputs.push_back(value);
    }
  }
  return Add("Concat", inputs, With({{"axis", dice_.Chance(80) ? axis : axis - Known(x).rank()}}));
}

Value* GraphMaker::Split() {
  Value* x = Pick();
  if (ShapeOf(x).empty()) return nullptr;
  const int64_t axis = dice_.In(0, Known(x).rank() - 1);
  const int64_t size = ShapeOf(x)[static_cast<size_t>(axis)];
  if (size < 2) return nullptr;
  const std::vector<int64_t> sizes = {1, size - 1};
  AttributeMap attributes = With({{"axis", axis}});
  std::vector<Value*> inputs = {x};
  if (opset_ >= 13) {
    inputs.push_back(Ints(sizes));
  } else {
    attributes.Set("split", sizes);
  }
  Value* first = Add("Split", inputs, attributes, 2);
  if (first == nullptr) return nullptr;
  Value* second = first->producer->outputs[1];
  if (dice_.Chance(40)) return Add("Concat", {first, second}, With({{"axis", axis}}));
  pool_.push_back(second);
  return first;
}

Value* GraphMaker::Pad() {
  Value* x = Pick(dice_.Chance(80) ? 4 : -1);
  if (x == nullptr || ShapeOf(x).empty()) return nullptr;
  const size_t rank = ShapeOf(x).size();
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = rank > 2 ? 2 : 0; i < rank; ++i) {
    pads[i] = dice_.In(0, 1);
    pads[i + rank] = dice_.In(0, 1);
  }
  const float value = dice_.Of({0.0F, 0.0F, 0.0F, 0.5F, -3.4028235e38F});
  AttributeMap attributes;
  if (dice_.Chance(10)) attributes.Set("mode", std::string("edge"));
  Value* padded = nullptr;
  // A window filled with the lowest float would be rejected, as the size of values is checked
  // before the pool.
  if (value < -1 && rank == 4) return nullptr;
  if (opset_ < 11) {
    attributes.Set("pads", pads);
    attributes.Set("value", value);
    padded = Add("Pad", {x}, attributes);
  } else {
    padded = Add("Pad", {x, Ints(pads), Constant(Tensor::Scalar(value))}, attributes);
  }
  return padded;
}

Value* GraphMaker::Stretch() {
  Value* x = Pick();
  Shape shape = ShapeOf(x);
  if (shape.empty()) return nullptr;
  if (dice_.Chance(50)) {
    std::vector<int64_t> repeats(shape.size(), 1);
    if (dice_.Chance(60)) repeats[static_cast<size_t>(dice_.In(0, Known(x).rank() - 1))] = 2;
    return Add("Tile", {x, Ints(repeats)});
  }
  if (dice_.Chance(30)) {
    Value* target = Add("Shape", {x});
    return target ? Add("Expand", {x, target}) : nullptr;
  }
  for (int64_t& dim : shape) dim = dim == 1 && dice_.Chance(50) ? 2 : 1;
  return Add("Expand", {x, Ints(shape)});
}

Value* GraphMaker::Gather() {
  Value* x = Pick();
  if (ShapeOf(x).empty()) return nullptr;
  const int64_t axis = dice_.In(0, Known(x).rank() - 1);
  const int64_t size = ShapeOf(x)[static_cast<size_t>(axis)];
  const int64_t index = dice_.In(-size, size - 1);
  Value* indices = dice_.Chance(50) ? Constant(Tensor::Scalar(index)) : Ints({index, 0});
  return Add("Gather", {x, indices}, With({{"axis", axis}}));
}

}  // namespace requant

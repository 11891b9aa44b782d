// Fragments of random graphs: elementwise operators.
#include "support/random_graphs/random_graph.h"

#include <algorithm>

#include "ops/op.h"

namespace requant {

Value* GraphMaker::Binary() {
  Value* x = Pick();
  const Shape& shape = ShapeOf(x);
  const std::string op = dice_.Of<std::string>({"Add", "Add", "Mul", "Mul", "Sub", "Div"});
  Value* other = nullptr;
  switch (dice_.In(0, 5)) {
    case 0:
      other = Scalar(op == "Div" ? 2 : dice_.Unit());
      break;
    case 1: {  // one number for each channel
      Shape channels(shape.size() > 1 ? shape.size() - 1 : 1, 1);
      channels[0] = shape.empty() ? 1 : shape[shape.size() > 1 ? 1 : 0];
      other = Floats(channels, op == "Div" ? 0.5F : -1.0F, 1.5F);
      break;
    }
    case 2:
      other = Floats(shape.empty() ? Shape{} : Shape{shape.back()}, op == "Div" ? 0.5F : -1.0F, 1);
      break;
    case 3:
      other = Scalar(op == "Mul" || op == "Div" ? 1.0F : 0.0F);
      break;
    default:
      if (op == "Div") return nullptr;
      other = pool_[static_cast<size_t>(dice_.In(0, static_cast<int64_t>(pool_.size()) - 1))];
  }
  if (op == "Div" && dice_.Chance(90)) return Add(op, {x, other});
  return dice_.Chance(80) || op == "Div" ? Add(op, {x, other}) : Add(op, {other, x});
}

Value* GraphMaker::Clamp() {
  Value* x = Pick();
  const float low = dice_.Of({0.0F, 0.0F, -1.0F, -0.5F});
  const float high = dice_.Of({6.0F, 1.0F, 0.5F, 2.0F});
  switch (dice_.In(0, 4)) {
    case 0:
      return Add("Max", {x, Scalar(low)});
    case 1:
      return Add("Min", {Scalar(high), x});
    case 2:
      return Add("Relu", {x});
    default:
      break;
  }
  if (opset_ < 11) return Add("Clip", {x}, With({{"min", low}, {"max", high}}));
  Value* minimum = dice_.Chance(80) ? Constant(Tensor::Scalar(low)) : nullptr;
  return Add("Clip", {x, minimum, Constant(Tensor::Scalar(high))});
}

/// Any function of the operator table.
Value* GraphMaker::Unary() {
  // Functions that jump, are unbounded, or lose digits near a point.
  static const std::vector<std::string> kRough = {
      "Round", "Floor", "Ceil", "Sign", "Sqrt", "Log",    "Reciprocal",     "Tan", "Acosh", "Acos",
      "Asin",  "Atanh", "Exp",  "Cosh", "Sinh", "Shrink", "ThresholdedRelu"};
  std::vector<const OpDef*> rows;
  for (const OpDef* row : OpTable()) {
    const bool rough = std::find(kRough.begin(), kRough.end(), row->name) != kRough.end();
    if (row->quant == QuantRule::kUnary && row->domain[0] == 0 && row->max_inputs == 1 &&
        row->since_version <= opset_ && !(smooth_ && rough)) {
      rows.push_back(row);
    }
  }
  const OpDef* row = rows[static_cast<size_t>(dice_.In(0, static_cast<int64_t>(rows.size()) - 1))];
  if (dice_.Chance(12)) return Add("Gelu", {Pick()}, {}, 1, kMicrosoftDomain);
  return Add(row->name, {Pick()});
}

Value* GraphMaker::Variadic() {
  Value* x = Pick();
  std::vector<Value*> inputs = {x};
  for (Value* value : pool_) {
    if (inputs.size() < 3 && dice_.Chance(60) && ShapeOf(value) == ShapeOf(x)) {
      inputs.push_back(value);
    }
  }
  return Add(dice_.Of<std::string>({"Sum", "Mean", "Max", "Min"}), inputs);
}

}  // namespace requant

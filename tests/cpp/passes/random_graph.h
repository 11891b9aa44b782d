// Small random graphs for the fuzzer of the passes: valid by construction (every node is inferred
// and evaluated as it is added), the same for the same seed on every machine.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "interpret/interpreter.h"
#include "ir/graph.h"
#include "ops/op.h"

namespace requant {

/// splitmix64: the distributions of <random> differ between libraries.
class Dice {
 public:
  explicit Dice(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31);
  }
  /// first .. last.
  int64_t In(int64_t first, int64_t last) {
    return first + static_cast<int64_t>(Next() % static_cast<uint64_t>(last - first + 1));
  }
  bool Chance(int percent) { return In(1, 100) <= percent; }
  /// [-1, 1) in steps of 2^-10.
  float Unit() { return static_cast<float>(In(-1024, 1023)) / 1024; }
  template <typename T>
  T Of(std::initializer_list<T> items) {
    return items.begin()[In(0, static_cast<int64_t>(items.size()) - 1)];
  }

 private:
  uint64_t state_;
};

/// A graph with types inferred, and feeds that fit it.
struct RandomGraph {
  Graph graph;
  TensorMap feeds;
};

class GraphMaker {
 public:
  /// `smooth`: without operators whose result jumps (rounding, casts to integers, Q/DQ), for passes
  /// that may round differently.
  GraphMaker(uint64_t seed, bool smooth) : dice_(seed), smooth_(smooth) {}

  RandomGraph Make() {
    opset_ = dice_.Of({9, 11, 13, 13, 14, 18, 21});
    out_.graph.name = "random";
    out_.graph.opsets = {{"", opset_}, {kMicrosoftDomain, 1}};
    Input({2, dice_.In(1, 4), dice_.In(3, 6), dice_.In(3, 6)});
    if (dice_.Chance(50)) Input({2, dice_.In(2, 6)});
    if (dice_.Chance(20)) Input({2, dice_.In(2, 4), dice_.In(2, 6)});
    const int64_t wanted = dice_.In(2, 9);
    for (int64_t made = 0, tries = 0; made < wanted && tries < 60; ++tries) {
      if (Value* value = AddAny()) {
        if (IsFloatValue(value)) pool_.push_back(value);
        ++made;
      }
    }
    Finish();
    return std::move(out_);
  }

 private:
  Graph& graph() { return out_.graph; }
  const Tensor& Known(const Value* value) const { return known_.at(value); }
  const Shape& ShapeOf(const Value* value) const { return Known(value).shape(); }
  bool IsFloatValue(const Value* value) const { return Known(value).dtype() == DType::kFloat32; }

  void Input(const Shape& shape) {
    SymbolicShape type = ToSymbolic(shape);
    // The first dimension is shared by all inputs: sometimes a symbol.
    if (symbolic_ < 0) symbolic_ = dice_.Chance(50) ? 1 : 0;
    if (symbolic_ == 1) type[0] = Dim("N");
    if (symbolic_ == 1 && shape.size() == 4 && dice_.Chance(20)) type[3] = Dim("W");
    Value* value = graph().AddValue("x", {DType::kFloat32, type});
    graph().AddInput(value);
    Tensor tensor(DType::kFloat32, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) tensor.data<float>()[i] = 2 * dice_.Unit();
    known_[value] = tensor;
    out_.feeds[value->name] = tensor;
    pool_.push_back(value);
  }

  Value* Constant(Tensor tensor) {
    Value* value = graph().AddConstant("c", tensor);
    known_[value] = std::move(tensor);
    return value;
  }
  Value* Floats(const Shape& shape, float low = -1, float high = 1) {
    Tensor tensor(DType::kFloat32, shape);
    for (int64_t i = 0; i < tensor.count(); ++i) {
      tensor.data<float>()[i] = low + (high - low) * (dice_.Unit() + 1) / 2;
    }
    return Constant(std::move(tensor));
  }
  Value* Scalar(float value) {
    return Constant(dice_.Chance(70) ? Tensor::Scalar(value) : Tensor::Vector<float>({value}));
  }
  Value* Ints(const std::vector<int64_t>& values) { return Constant(Tensor::Vector(values)); }

  /// A float value of the graph, mostly a recent one; nullptr when none has that rank.
  Value* Pick(int64_t rank = -1) {
    std::vector<Value*> fits;
    for (Value* value : pool_) {
      if (rank < 0 || Known(value).rank() == rank) fits.push_back(value);
    }
    if (fits.empty()) return nullptr;
    if (dice_.Chance(60)) return fits.back();
    return fits[static_cast<size_t>(dice_.In(0, static_cast<int64_t>(fits.size()) - 1))];
  }

  static AttributeMap With(std::vector<AttributeMap::Entry> entries) {
    AttributeMap map;
    for (auto& [name, value] : entries) map.Set(name, std::move(value));
    return map;
  }

  /// Adds the node if it is valid and its values are small enough to be judged.
  Value* Add(const std::string& op, const std::vector<Value*>& inputs, AttributeMap attributes = {},
             size_t outputs = 1, const std::string& domain = "") {
    if (std::any_of(inputs.begin(), inputs.end(),
                    [this](const Value* value) { return value && !known_.contains(value); })) {
      return nullptr;
    }
    std::vector<Value*> results;
    for (size_t i = 0; i < outputs; ++i) results.push_back(graph().AddValue("v"));
    Node* node = graph().AddNode(op, domain, inputs, results, std::move(attributes));
    bool good = true;
    try {
      const std::vector<ValueType> types = InferNode(graph(), *node);
      std::vector<const Tensor*> tensors;
      for (const Value* input : inputs) tensors.push_back(input ? &Known(input) : nullptr);
      const std::vector<Tensor> values =
          EvaluateNode(graph(), *node, tensors, RequantizeMode::kUpward);
      for (size_t i = 0; i < outputs; ++i) {
        results[i]->type = types[i];
        good = good && IsGood(values[i]);
        known_[results[i]] = values[i];
      }
    } catch (const Error&) {
      good = false;
    }
    if (good) return results[0];
    for (const Value* result : results) known_.erase(result);
    graph().EraseNode(node);
    return nullptr;
  }

  static bool IsGood(const Tensor& tensor) {
    if (tensor.count() == 0 || tensor.count() > 600) return false;
    if (!IsFloat(tensor.dtype())) return true;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      if (!(std::fabs(tensor.AsDouble(i)) < 50)) return false;
    }
    return true;
  }

  // --- layers

  AttributeMap Window(int64_t kernel_h, int64_t kernel_w, bool dilated) {
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

  Value* MaybeBias(int64_t channels) { return dice_.Chance(50) ? Floats({channels}) : nullptr; }

  Value* Conv() {
    Value* x = Pick(4);
    if (x == nullptr) return nullptr;
    const int64_t channels = ShapeOf(x)[1];
    const int64_t group = dice_.Chance(30)                        ? channels
                          : channels % 2 == 0 && dice_.Chance(20) ? 2
                                                                  : 1;
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

  Value* ConvTranspose() {
    Value* x = Pick(4);
    if (x == nullptr) return nullptr;
    const int64_t h = dice_.In(1, 2);
    const int64_t rows = dice_.In(1, 2);
    std::vector<Value*> inputs = {x, Floats({ShapeOf(x)[1], rows, h, h})};
    if (Value* bias = MaybeBias(rows)) inputs.push_back(bias);
    return Add("ConvTranspose", inputs, With({{"strides", std::vector<int64_t>{h, h}}}));
  }

  Value* Dense() {
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

  /// Two computed operands.
  Value* Product() {
    Value* a = Pick(dice_.In(2, 4));
    if (a == nullptr) return nullptr;
    std::vector<int64_t> perm;
    for (int64_t i = 0; i < Known(a).rank(); ++i) perm.push_back(i);
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    Value* b = Add("Transpose", {a}, With({{"perm", perm}}));
    if (b == nullptr) return nullptr;
    Value* scores = Add("MatMul", {a, b});
    if (scores && dice_.Chance(30)) {
      Value* other = Add("Relu", {b});
      if (Value* sibling = other ? Add("MatMul", {a, other}) : nullptr) pool_.push_back(sibling);
    }
    if (scores && dice_.Chance(60)) scores = Add("Mul", {scores, Scalar(0.5F)});
    if (scores && dice_.Chance(50))
      scores = Add("Softmax", {scores}, With({{"axis", int64_t{-1}}}));
    return scores && dice_.Chance(50) ? Add("MatMul", {scores, a}) : scores;
  }

  Value* Normalization() {
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

  Value* LayerNorm() {
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

  // --- elementwise

  Value* Binary() {
    Value* x = Pick();
    const Shape& shape = ShapeOf(x);
    const std::string op = dice_.Of<std::string>({"Add", "Add", "Mul", "Mul", "Sub", "Div"});
    Value* other = nullptr;
    switch (dice_.In(0, 5)) {
      case 0:
        other = Scalar(op == "Div" ? 2 : dice_.Unit());
        break;
      case 1: {  // one for each channel
        Shape channels(shape.size() > 1 ? shape.size() - 1 : 1, 1);
        channels[0] = shape.empty() ? 1 : shape[shape.size() > 1 ? 1 : 0];
        other = Floats(channels, op == "Div" ? 0.5F : -1.0F, 1.5F);
        break;
      }
      case 2:
        other =
            Floats(shape.empty() ? Shape{} : Shape{shape.back()}, op == "Div" ? 0.5F : -1.0F, 1);
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

  Value* Clamp() {
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
  Value* Unary() {
    // Where values jump, or grow without bound, or lose digits near a point.
    static const std::vector<std::string> kRough = {
        "Round",      "Floor", "Ceil",  "Sign",   "Sqrt",           "Log",
        "Reciprocal", "Tan",   "Acosh", "Acos",   "Asin",           "Atanh",
        "Exp",        "Cosh",  "Sinh",  "Shrink", "ThresholdedRelu"};
    std::vector<const OpDef*> rows;
    for (const OpDef* row : OpTable()) {
      const bool rough = std::find(kRough.begin(), kRough.end(), row->name) != kRough.end();
      if (row->quant == QuantRule::kUnary && row->domain[0] == 0 && row->max_inputs == 1 &&
          row->since_version <= opset_ && !(smooth_ && rough)) {
        rows.push_back(row);
      }
    }
    const OpDef* row =
        rows[static_cast<size_t>(dice_.In(0, static_cast<int64_t>(rows.size()) - 1))];
    if (dice_.Chance(12)) return Add("Gelu", {Pick()}, {}, 1, kMicrosoftDomain);
    return Add(row->name, {Pick()});
  }

  /// Activations as exporters write them out.
  Value* Decomposed() {
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

  Value* Variadic() {
    Value* x = Pick();
    std::vector<Value*> inputs = {x};
    for (Value* value : pool_) {
      if (inputs.size() < 3 && dice_.Chance(60) && ShapeOf(value) == ShapeOf(x)) {
        inputs.push_back(value);
      }
    }
    return Add(dice_.Of<std::string>({"Sum", "Mean", "Max", "Min"}), inputs);
  }

  // --- windows and reductions

  Value* Pool() {
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

  Value* Reduce() {
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

  // --- movement

  Value* Transpose() {
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
    return dice_.Chance(10) ? Add("Transpose", {x}) : Add("Transpose", {x}, With({{"perm", perm}}));
  }

  Value* Reshape() {
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

  /// The target computed as exporters do: Shape -> Gather / Slice -> Concat.
  Value* ReshapeByShape(Value* x) {
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
    Value* target =
        head ? Add("Concat", {head, Ints({-1})}, With({{"axis", int64_t{0}}})) : nullptr;
    return target ? Add("Reshape", {x, target}) : nullptr;
  }

  Value* UnsqueezeOf(Value* x, const std::vector<int64_t>& axes) {
    if (opset_ >= 13) return Add("Unsqueeze", {x, Ints(axes)});
    return Add("Unsqueeze", {x}, With({{"axes", axes}}));
  }

  Value* SqueezeOrUnsqueeze() {
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

  Value* Flatten() {
    Value* x = Pick();
    return Add("Flatten", {x}, With({{"axis", dice_.In(0, Known(x).rank())}}));
  }

  Value* SliceOf(Value* x, int64_t start, int64_t end, int64_t axis, int64_t step) {
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

  Value* Slice() {
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

  Value* Concat() {
    Value* x = Pick();
    if (ShapeOf(x).empty()) return nullptr;
    const int64_t axis = dice_.In(0, Known(x).rank() - 1);
    std::vector<Value*> inputs = {x};
    for (Value* value : pool_) {
      if (inputs.size() < 3 && dice_.Chance(60) && Known(value).rank() == Known(x).rank()) {
        inputs.push_back(value);
      }
    }
    return Add("Concat", inputs,
               With({{"axis", dice_.Chance(80) ? axis : axis - Known(x).rank()}}));
  }

  Value* Split() {
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

  Value* Pad() {
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
    // Judged before the pool, a window filled with the lowest float would be thrown away.
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

  Value* Stretch() {
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

  Value* Gather() {
    Value* x = Pick();
    if (ShapeOf(x).empty()) return nullptr;
    const int64_t axis = dice_.In(0, Known(x).rank() - 1);
    const int64_t size = ShapeOf(x)[static_cast<size_t>(axis)];
    const int64_t index = dice_.In(-size, size - 1);
    Value* indices = dice_.Chance(50) ? Constant(Tensor::Scalar(index)) : Ints({index, 0});
    return Add("Gather", {x, indices}, With({{"axis", axis}}));
  }

  // --- what does nothing, and quantization

  Value* Neutral() {
    Value* x = Pick();
    if (dice_.Chance(50)) return Add("Identity", {x});
    if (opset_ >= 12 || dice_.Chance(50)) return Add("Dropout", {x});
    return Add("Dropout", {x}, With({{"ratio", 0.5F}}), 2);
  }

  Value* Cast() {
    Value* x = Pick();
    const DType middle = smooth_ || dice_.Chance(60) ? DType::kFloat64 : DType::kInt32;
    Value* other = Add("Cast", {x}, With({{"to", static_cast<int64_t>(middle)}}));
    if (other == nullptr) return nullptr;
    return Add("Cast", {other}, With({{"to", static_cast<int64_t>(DType::kFloat32)}}));
  }

  Value* QuantizePair() {
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
    }
    return y;
  }

  /// The same computation a second time.
  Value* Repeat() {
    if (graph().nodes().empty()) return nullptr;
    const Node& node = *graph().nodes()[static_cast<size_t>(
        dice_.In(0, static_cast<int64_t>(graph().nodes().size()) - 1))];
    const std::vector<Value*> inputs = node.inputs;
    return Add(node.op_type, inputs, node.attributes, node.outputs.size());
  }

  Value* ConstantNode() {
    Tensor tensor(DType::kFloat32, {1});
    tensor.data<float>()[0] = dice_.Unit();
    Value* made = Add("Constant", {}, With({{"value", tensor}}));
    return made ? Add("Mul", {Pick(), made}) : nullptr;
  }

  Value* AddAny() {
    using Maker = Value* (GraphMaker::*)();
    struct Row {
      int64_t weight;
      Maker make;
    };
    static constexpr Row kRows[] = {
        {14, &GraphMaker::Conv},         {2, &GraphMaker::ConvTranspose},
        {8, &GraphMaker::Dense},         {3, &GraphMaker::Product},
        {8, &GraphMaker::Normalization}, {2, &GraphMaker::LayerNorm},
        {14, &GraphMaker::Binary},       {8, &GraphMaker::Clamp},
        {5, &GraphMaker::Unary},         {5, &GraphMaker::Decomposed},
        {3, &GraphMaker::Variadic},      {6, &GraphMaker::Pool},
        {4, &GraphMaker::Reduce},        {10, &GraphMaker::Transpose},
        {7, &GraphMaker::Reshape},       {4, &GraphMaker::SqueezeOrUnsqueeze},
        {2, &GraphMaker::Flatten},       {5, &GraphMaker::Slice},
        {4, &GraphMaker::Concat},        {3, &GraphMaker::Split},
        {6, &GraphMaker::Pad},           {3, &GraphMaker::Stretch},
        {2, &GraphMaker::Gather},        {3, &GraphMaker::Neutral},
        {2, &GraphMaker::Cast},          {6, &GraphMaker::QuantizePair},
        {6, &GraphMaker::Repeat},        {1, &GraphMaker::ConstantNode},
    };
    int64_t total = 0;
    for (const Row& row : kRows) total += row.weight;
    int64_t ticket = dice_.In(0, total - 1);
    for (const Row& row : kRows) {
      if ((ticket -= row.weight) < 0) return (this->*row.make)();
    }
    return nullptr;
  }

  void Finish() {
    std::vector<Value*> ends = {pool_.back()};
    for (Value* value : pool_) {
      const bool unread = value->consumers.empty() && dice_.Chance(40);
      if (value->producer && value != ends[0] && (unread || dice_.Chance(7))) ends.push_back(value);
    }
    for (Value* value : ends) {
      if (graph().IsInput(value)) value = graph().AddOp("Relu", "", {value}, "y", value->type);
      graph().AddOutput(value);
    }
    graph().RemoveUnusedValues();
    // As many files come: without the types of inner values.
    if (!dice_.Chance(20)) return;
    for (const auto& value : graph().values()) {
      if (value->producer) value->type = {};
    }
  }

  Dice dice_;
  bool smooth_;
  int opset_ = 13;
  int symbolic_ = -1;
  RandomGraph out_;
  std::vector<Value*> pool_;
  std::unordered_map<const Value*, Tensor> known_;
};

}  // namespace requant

// The parts that all fragments of random graphs share: values, nodes, and the choice among
// fragments.
#include "support/random_graphs/random_graph.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "interpret/interpreter.h"
#include "ops/op.h"

namespace requant {

Expected Compute(const Graph& graph, const TensorMap& feeds, RequantizeMode mode) {
  Expected out;
  InterpretOptions options{mode, {}};
  options.observe = [&out](const Value&, const Tensor& tensor) {
    if (!IsFloat(tensor.dtype())) return;
    for (int64_t i = 0; i < tensor.count(); ++i) {
      const double x = std::abs(tensor.AsDouble(i));
      if (std::isfinite(x)) out.magnitude = std::max(out.magnitude, x);
    }
  };
  out.outputs = Interpret(graph, feeds, options);
  return out;
}

RandomGraph GraphMaker::Make() {
  opset_ = dice_.Of({9, 11, 13, 13, 14, 18, 21, 23});
  out_.graph.name = "random";
  out_.graph.opsets = {{"", opset_}, {kMicrosoftDomain, 1}};
  Input({2, dice_.In(1, 4), dice_.In(3, 6), dice_.In(3, 6)});
  if (dice_.Chance(50)) Input({2, dice_.In(2, 6)});
  if (dice_.Chance(40)) Input({2, dice_.In(2, 4), dice_.In(2, 6)});
  if (odd_ && dice_.Chance(20)) Input({dice_.In(2, 5), dice_.In(2, 6), dice_.In(2, 6)});
  const int64_t wanted = dice_.In(2, 9);
  for (int64_t made = 0, tries = 0; made < wanted && tries < 60; ++tries) {
    if (Value* value = odd_ && dice_.Chance(50) ? AddOdd() : AddAny()) {
      if (IsFloatValue(value)) pool_.push_back(value);
      ++made;
    }
  }
  Finish();
  return std::move(out_);
}

void GraphMaker::Input(const Shape& shape) {
  SymbolicShape type = ToSymbolic(shape);
  // All inputs share the first dimension, which is a symbol in some graphs.
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

Value* GraphMaker::Constant(Tensor tensor) {
  Value* value = graph().AddConstant("c", tensor);
  known_[value] = std::move(tensor);
  return value;
}

Value* GraphMaker::Floats(const Shape& shape, float low, float high) {
  Tensor tensor(DType::kFloat32, shape);
  for (int64_t i = 0; i < tensor.count(); ++i) {
    tensor.data<float>()[i] = low + (high - low) * (dice_.Unit() + 1) / 2;
  }
  return Constant(std::move(tensor));
}

Value* GraphMaker::Scalar(float value) {
  return Constant(dice_.Chance(70) ? Tensor::Scalar(value) : Tensor::Vector<float>({value}));
}

/// Picks a float value of the graph, mostly a recent one; nullptr if none has that rank.
Value* GraphMaker::Pick(int64_t rank) {
  std::vector<Value*> fits;
  for (Value* value : pool_) {
    if (rank < 0 || Known(value).rank() == rank) fits.push_back(value);
  }
  if (fits.empty()) return nullptr;
  if (dice_.Chance(60)) return fits.back();
  return fits[static_cast<size_t>(dice_.In(0, static_cast<int64_t>(fits.size()) - 1))];
}

AttributeMap GraphMaker::With(std::vector<AttributeMap::Entry> entries) {
  AttributeMap map;
  for (auto& [name, value] : entries) map.Set(name, std::move(value));
  return map;
}

/// Adds the node if it is valid and its values are small enough to be compared.
Value* GraphMaker::Add(const std::string& op, const std::vector<Value*>& inputs,
                       AttributeMap attributes, size_t outputs, const std::string& domain) {
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

bool GraphMaker::IsGood(const Tensor& tensor) const {
  if (tensor.count() == 0 || tensor.count() > 800) return false;
  if (!IsFloat(tensor.dtype())) return true;
  for (int64_t i = 0; i < tensor.count(); ++i) {
    if (!(std::fabs(tensor.AsDouble(i)) < limit_)) return false;
  }
  return true;
}

Value* GraphMaker::AddAny() {
  using Maker = Value* (GraphMaker::*)();
  struct Row {
    int64_t weight;
    Maker make;
  };
  static constexpr Row kRows[] = {
      {14, &GraphMaker::Conv},         {2, &GraphMaker::ConvTranspose},
      {8, &GraphMaker::Dense},         {4, &GraphMaker::Product},
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
      {2, &GraphMaker::RowCodes},      {6, &GraphMaker::Repeat},
      {1, &GraphMaker::ConstantNode},  {3, &GraphMaker::Branch},
      {3, &GraphMaker::Atrous},        {3, &GraphMaker::GroupNorm},
      {4, &GraphMaker::ScaledLayer},   {2, &GraphMaker::ExpandByShape},
      {8, &GraphMaker::Attention},     {3, &GraphMaker::RmsNorm},
      {5, &GraphMaker::Einsum},        {4, &GraphMaker::BlockedWeights},
  };
  int64_t total = 0;
  for (const Row& row : kRows) total += row.weight;
  int64_t ticket = dice_.In(0, total - 1);
  for (const Row& row : kRows) {
    if ((ticket -= row.weight) >= 0) continue;
    const bool quantizes = row.make == &GraphMaker::QuantizePair ||
                           row.make == &GraphMaker::RowCodes ||
                           row.make == &GraphMaker::BlockedWeights;
    return odd_ && quantizes ? nullptr : (this->*row.make)();
  }
  return nullptr;
}

void GraphMaker::Finish() {
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
  // Many files come without the types of inner values.
  if (!dice_.Chance(20)) return;
  for (const auto& value : graph().values()) {
    if (value->producer) value->type = {};
  }
}

}  // namespace requant

#include "passes/integers/writer.h"

#include <algorithm>
#include <utility>

#include "base/str_cat.h"
#include "numeric/requantize_prepare.h"
#include "ops/quantized/qlinear.h"

namespace requant::integers {
namespace {

template <typename T>
bool AllEqual(const std::vector<T>& list) {
  return std::all_of(list.begin(), list.end(), [&](T item) { return item == list[0]; });
}

const char* RoundingName(RequantizeMode mode) {
  if (mode == RequantizeMode::kToNearest) return "nearest";
  return mode == RequantizeMode::kGemmlowp ? "gemmlowp" : "upward";
}

}  // namespace

bool Operand::any_zero() const {
  return std::any_of(zeros.begin(), zeros.end(), [](int32_t zero) { return zero != 0; });
}

std::optional<Operand> ConstantOperand(const Node& node, size_t scale_slot, size_t zero_slot,
                                       int64_t count) {
  const Tensor* scale = node.constant(scale_slot);
  const Tensor* zero = node.constant(zero_slot);
  if (scale == nullptr || (node.input(zero_slot) != nullptr && zero == nullptr)) return {};
  const auto fits = [count](const Tensor& tensor) {
    return tensor.count() == 1 || tensor.count() == count;
  };
  if (!fits(*scale) || (zero != nullptr && !fits(*zero))) return {};
  Operand out{scale->ToFloats(), {0}};
  if (zero != nullptr) {
    out.zeros.clear();
    for (const int64_t value : zero->ToInts()) out.zeros.push_back(static_cast<int32_t>(value));
  }
  return out;
}

std::optional<Output> ConstantOutput(const Node& node, size_t scale_slot, size_t zero_slot) {
  const std::optional<Operand> operand = ConstantOperand(node, scale_slot, zero_slot);
  if (!operand || node.output() == nullptr || !IsByte(node.output()->type.dtype)) return {};
  return Output{operand->scales[0], operand->zeros[0], node.output()->type.dtype};
}

Value* Writer::Add(const char* op, std::vector<Value*> inputs, const char* part, DType dtype,
                   AttributeMap attributes) {
  const std::string name = StrCat(node_->name, "/", part);
  return graph_.AddOp(op, "", std::move(inputs), name, {dtype, std::nullopt}, std::move(attributes),
                      name);
}

Value* Writer::Constant(const char* part, Tensor tensor) {
  return graph_.AddConstant(StrCat(node_->name, "/", part), std::move(tensor));
}

Value* Writer::Numbers(const char* part, const std::vector<int32_t>& numbers, Shape shape) {
  if (!numbers.empty() && AllEqual(numbers)) return Constant(part, Tensor::Scalar(numbers[0]));
  return Constant(part, Tensor::FromVector(numbers, std::move(shape)));
}

Value* Writer::ZeroPoint(const char* part, const std::vector<int32_t>& zeros, DType dtype) {
  const bool equal = AllEqual(zeros);
  Tensor tensor(dtype, equal ? Shape{} : Shape{static_cast<int64_t>(zeros.size())});
  for (int64_t i = 0; i < tensor.count(); ++i) {
    StoreByte(tensor.raw(), i, zeros[static_cast<size_t>(i)]);
  }
  return Constant(part, std::move(tensor));
}

Value* Writer::Centered(Value* codes, int32_t zero, const char* part) {
  AttributeMap to;
  to.Set("to", static_cast<int64_t>(DType::kInt32));
  Value* wide = Add("Cast", {codes}, StrCat(part, "_int32").c_str(), DType::kInt32, std::move(to));
  if (zero == 0) return wide;
  return Add("Sub", {wide, Scalar(StrCat(part, "_zero").c_str(), zero)},
             StrCat(part, "_centered").c_str(), DType::kInt32);
}

Value* Writer::Plus(Value* sums, const std::vector<int32_t>& numbers, Shape shape,
                    const char* part) {
  if (std::all_of(numbers.begin(), numbers.end(), [](int32_t n) { return n == 0; })) return sums;
  Value* constant = Numbers(part, numbers, std::move(shape));
  return Add("Add", {sums, constant}, StrCat("plus_", part).c_str(), DType::kInt32);
}

Value* Writer::Lookup(Value* codes, Tensor table, const char* part) {
  const std::string name = StrCat(node_->name, "/", part);
  const DType dtype = table.dtype();
  graph_.opsets[kRequantDomain] = 1;
  Value* entries = graph_.AddConstant(StrCat(name, "_table"), std::move(table));
  return graph_.AddOp("Lut", kRequantDomain, {codes, entries}, name, {dtype, codes->type.shape}, {},
                      name);
}

Value* Writer::Multiply(Value* sums, Value* multiplier, Value* shift, RequantizeMode mode) {
  AttributeMap attributes;
  attributes.Set("rounding", std::string(RoundingName(mode)));
  const std::string name = StrCat(node_->name, "/requantize");
  graph_.opsets[kRequantDomain] = 1;
  return graph_.AddOp("FixedPointMultiply", kRequantDomain, {sums, multiplier, shift}, name,
                      {DType::kInt32, std::nullopt}, std::move(attributes), name);
}

void Writer::Saturate(Value* steps, const Output& to) {
  // The clamp comes before the zero point, so that no sum leaves int32.
  Value* lo = Scalar("lo", ByteMin(to.dtype) - to.zero);
  Value* hi = Scalar("hi", ByteMax(to.dtype) - to.zero);
  Value* codes = Add("Clip", {steps, lo, hi}, "clamp", DType::kInt32);
  if (to.zero != 0) codes = Add("Add", {codes, Scalar("zero", to.zero)}, "code", DType::kInt32);
  AttributeMap attributes;
  attributes.Set("to", static_cast<int64_t>(to.dtype));
  FinishWith("Cast", {codes}, std::move(attributes));
}

void Writer::Finish(Value* sums, const std::vector<double>& multipliers, const Shape& shape,
                    const Output& to) {
  const PreparedRequantize prepared =
      PrepareRequantize(form_.requantize, multipliers, {kAnyAccumulator}, to.zero,
                        ByteMin(to.dtype), ByteMax(to.dtype));
  const RequantizeParams params = prepared.Params();
  const size_t count = multipliers.size();
  const std::vector<int32_t> multiplier(params.multiplier, params.multiplier + count);
  const std::vector<int32_t> shift(params.shift, params.shift + count);
  Value* numbers = Numbers("multiplier", multiplier, shape);
  Saturate(Multiply(sums, numbers, Numbers("shift", shift, shape), form_.requantize), to);
}

void Writer::FinishShift(Value* sums, FixedMultiplier multiplier, const Output& to) {
  Value* number = Scalar("multiplier", multiplier.multiplier);
  Saturate(Multiply(sums, number, Scalar("shift", multiplier.shift), RequantizeMode::kUpward), to);
}

void Writer::FinishWith(const char* op, std::vector<Value*> inputs, AttributeMap attributes) {
  Value* output = node_->outputs[0];
  const std::string name = node_->name;
  graph_.SetOutput(node_, 0, nullptr);
  graph_.EraseNode(node_);
  node_ = graph_.AddNode(op, "", std::move(inputs), {output}, std::move(attributes), name);
}

}  // namespace requant::integers

// Operators of one element, or of several that broadcast.
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/convert/operands.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

int8_t FusedActivation(const Context& context) {
  return context.options().Get<int8_t>(field::ActivationOptions::kActivation, 0);
}

void Clamp(Context& context, float least, float most) {
  const Order order = context.order(0);
  context.Define(
      context.Add("Clip", {context.Reals(0, order), context.Scalar(least), context.Scalar(most)}),
      order);
}

bool IsReal(const Context& context) {
  return IsFloat(context.output().dtype) || !context.output().quantization.scales.empty();
}

}  // namespace

void ConvertUnary(Context& context, const char* onnx) {
  const Order order = context.order(0);
  context.Define(context.Add(onnx, {context.Reals(0, order)}), order);
}

void ConvertRelu6(Context& context, const char*) { Clamp(context, 0, 6); }
void ConvertReluN1To1(Context& context, const char*) { Clamp(context, -1, 1); }
void ConvertRelu0To1(Context& context, const char*) { Clamp(context, 0, 1); }

void ConvertLeakyRelu(Context& context, const char*) {
  const float alpha = context.options().Get<float>(field::LeakyReluOptions::kAlpha, 0);
  const Order order = context.order(0);
  context.Define(context.Add("LeakyRelu", {context.Reals(0, order)}, With("alpha", alpha)), order);
}

void ConvertGelu(Context& context, const char*) {
  AttributeMap attributes;
  if (context.options().Flag(field::GeluOptions::kApproximate)) {
    attributes.Set("approximate", std::string("tanh"));
  }
  const Order order = context.order(0);
  context.Define(context.Add("Gelu", {context.Reals(0, order)}, std::move(attributes)), order);
}

void ConvertRsqrt(Context& context, const char*) {
  const Order order = context.order(0);
  Value* root = context.Add("Sqrt", {context.Reals(0, order)});
  context.Define(context.Add("Reciprocal", {root}), order);
}

void ConvertSquare(Context& context, const char*) {
  const Order order = context.order(0);
  Value* x = context.Reals(0, order);
  context.Define(context.Add("Mul", {x, x}), order);
}

void ConvertZerosLike(Context& context, const char*) {
  AttributeMap value = With("value", Tensor(context.output().dtype, {1}));
  Value* shape = context.Add("Shape", {context.Codes(0)});
  context.graph().DefineCodes(
      context.out(), context.Add("ConstantOfShape", {shape}, std::move(value)), Order::kPlain);
}

void ConvertBinary(Context& context, const char* onnx) {
  Operands operands = BroadcastOperands(context, 0, 2);
  context.Define(context.Add(onnx, std::move(operands.values)), operands.order);
}

void ConvertArithmetic(Context& context, const char* onnx) {
  Operands operands = BroadcastOperands(context, 0, 2);
  Value* result = context.Add(onnx, std::move(operands.values));
  context.DefineActivated(result, FusedActivation(context), operands.order);
}

void ConvertNotEqual(Context& context, const char*) {
  Operands operands = BroadcastOperands(context, 0, 2);
  Value* equal = context.Add("Equal", std::move(operands.values));
  context.Define(context.Add("Not", {equal}), operands.order);
}

void ConvertSquaredDifference(Context& context, const char*) {
  Operands operands = BroadcastOperands(context, 0, 2);
  Value* difference = context.Add("Sub", std::move(operands.values));
  context.Define(context.Add("Mul", {difference, difference}), operands.order);
}

/// Rounds towards minus infinity, integers as well.
void ConvertFloorDiv(Context& context, const char*) {
  const Operands operands = BroadcastOperands(context, 0, 2);
  Value* a = operands.values[0];
  Value* b = operands.values[1];
  if (IsReal(context)) {
    context.Define(context.Add("Floor", {context.Add("Div", {a, b})}), operands.order);
    return;
  }
  // Less its remainder, which has the divisor's sign, a is a multiple of b.
  Value* multiple = context.Add("Sub", {a, context.Add("Mod", {a, b})});
  context.Define(context.Add("Div", {multiple, b}), operands.order);
}

/// The remainder of FLOOR_DIV, which has the divisor's sign.
void ConvertFloorMod(Context& context, const char*) {
  const Operands operands = BroadcastOperands(context, 0, 2);
  Value* a = operands.values[0];
  Value* b = operands.values[1];
  if (!IsReal(context)) {
    context.Define(context.Add("Mod", {a, b}), operands.order);
    return;
  }
  Value* quotient = context.Add("Floor", {context.Add("Div", {a, b})});
  context.Define(context.Add("Sub", {a, context.Add("Mul", {b, quotient})}), operands.order);
}

void ConvertAddN(Context& context, const char*) {
  if (context.inputs() == 0) context.Invalid(RQ_LATE_TEXT("has no input"));
  const Operands operands = BroadcastOperands(context, 0, context.inputs());
  Value* sum = operands.values[0];
  for (size_t i = 1; i < operands.values.size(); ++i) {
    sum = context.Add("Add", {sum, operands.values[i]});
  }
  if (operands.values.size() == 1) sum = context.Add("Identity", {sum});
  context.Define(sum, operands.order);
}

void ConvertSelect(Context& context, const char*) {
  // SELECT takes a list of conditions for the first dimension, and SELECT_V2 broadcasts.
  const size_t rank = context.rank(1);
  if (std::string_view(context.name()) == "SELECT" && context.rank(0) == 1 && rank > 1) {
    std::vector<int64_t> axes;
    for (size_t i = 1; i < rank; ++i) axes.push_back(static_cast<int64_t>(i));
    Value* condition = context.Add("Unsqueeze", {context.Codes(0), context.Ints(axes)});
    context.Define(context.Add("Where", {condition, context.Reals(1), context.Reals(2)}));
    return;
  }
  Operands operands = BroadcastOperands(context, 0, 3);
  context.Define(context.Add("Where", std::move(operands.values)), operands.order);
}

}  // namespace requant::tflite

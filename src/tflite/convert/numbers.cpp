// Operators on bits, angles, spectra and steps of a scale, and random numbers.
#include <numbers>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/convert/operands.h"
#include "tflite/operators.h"

namespace requant::tflite {

/// atan(y / x), turned by half a circle left of 0.
void ConvertAtan2(Context& context, const char*) {
  const Operands operands = BroadcastOperands(context, 0, 2);
  Value* y = operands.values[0];
  Value* x = operands.values[1];
  constexpr float kPi = std::numbers::pi_v<float>;
  const auto choose = [&context](Value* when, Value* then, Value* otherwise) {
    return context.Add("Where", {when, then, otherwise});
  };
  Value* zero = context.Scalar(0);
  Value* below = context.Add("Less", {y, zero});
  Value* angle = context.Add("Atan", {context.Add("Div", {y, x})});
  Value* turned = choose(below, context.Scalar(-kPi), context.Scalar(kPi));
  Value* upright = context.Add("Mul", {context.Add("Sign", {y}), context.Scalar(kPi / 2)});
  Value* left = context.Add("Less", {x, zero});
  angle = context.Add("Add", {angle, choose(left, turned, zero)});
  Value* on_axis = context.Add("Equal", {x, zero});
  context.Define(choose(on_axis, upright, angle), operands.order);
}

void ConvertBitcast(Context& context, const char*) {
  const DType from = context.input(0).dtype;
  const DType to = context.output().dtype;
  if (from == to) {
    const Order order = context.order(0);
    return context.graph().DefineCodes(context.out(),
                                       context.Add("Identity", {context.Codes(0, order)}), order);
  }
  if (from == DType::kUndefined || DTypeBits(from) != DTypeBits(to)) {
    context.Refuse(RQ_LATE_TEXT("changes the size of its elements"),
                   RQ_LATE_TEXT("do that in JavaScript, on the bytes of the input"));
  }
  // ONNX has BitCast from that opset on.
  context.graph().graph().opsets[""] = 26;
  const Order order = context.order(0);
  context.graph().DefineCodes(
      context.out(),
      context.Add("BitCast", {context.Codes(0, order)}, With("to", static_cast<int64_t>(to))),
      order);
}

/// Signed numbers keep their sign, so they are divided by a power of 2, rounding down.
void ConvertRightShift(Context& context, const char*) {
  const DType dtype = context.output().dtype;
  const Operands operands = BroadcastOperands(context, 0, 2);
  Value* a = operands.values[0];
  Value* b = operands.values[1];
  if (dtype == DType::kUint8 || dtype == DType::kUint16 || dtype == DType::kUint32) {
    return context.Define(context.Add("BitShift", {a, b}, With("direction", std::string("RIGHT"))),
                          operands.order);
  }
  a = context.Cast(a, DType::kInt64);
  Value* two = context.graph().AddConstant(Tensor::Scalar(int64_t{2}));
  Value* divisor = context.Add("Pow", {two, context.Cast(b, DType::kInt64)});
  Value* multiple = context.Add("Sub", {a, context.Add("Mod", {a, divisor})});
  Value* shifted = context.Add("Div", {multiple, divisor});
  context.Define(context.Cast(shifted, dtype), operands.order);
}

/// The number of boundaries that are not above an element.
void ConvertBucketize(Context& context, const char*) {
  const std::vector<float> boundaries =
      context.options().List<float>(field::BucketizeOptions::kBoundaries);
  if (context.input(0).dtype == DType::kUndefined || boundaries.empty())
    context.Invalid(RQ_LATE_TEXT("has no boundaries"));
  Value* x = context.Cast(context.Codes(0), DType::kFloat32);
  x = context.Add("Unsqueeze", {x, context.Ints({-1})});
  Value* below = context.Add("Less", {x, context.graph().AddConstant(Tensor::Vector(boundaries))});
  Value* passed = context.Cast(context.Add("Not", {below}), DType::kInt64);
  context.DefineInts(
      context.Add("ReduceSum", {passed, context.Ints({-1})}, With("keepdims", int64_t{0})));
}

namespace {

/// A seed other than 0 gives the same numbers in every run.
AttributeMap Seeded(const Context& context) {
  using Options = field::RandomOptions;
  AttributeMap attributes;
  const int64_t seed = context.options().Get<int64_t>(Options::kSeed, 0);
  const int64_t second = context.options().Get<int64_t>(Options::kSeed2, 0);
  if (seed != 0 || second != 0) {
    const uint64_t both = static_cast<uint64_t>(seed) * 31 + static_cast<uint64_t>(second);
    attributes.Set("seed", static_cast<float>(both));
  }
  return attributes;
}

}  // namespace

/// RANDOM_UNIFORM and RANDOM_STANDARD_NORMAL. The numbers are other ones than those of LiteRT.
void ConvertRandom(Context& context, const char* onnx) {
  AttributeMap attributes = Seeded(context);
  attributes.Set("dtype", int64_t{1});
  Value* shape = context.Add("ConstantOfShape", {context.Int64(0)},
                             With("value", Tensor(DType::kFloat32, {1})));
  context.Define(context.Add(onnx, {shape}, std::move(attributes)));
}

void ConvertMultinomial(Context& context, const char*) {
  const std::vector<int64_t> count = context.ints(1);
  if (count.size() != 1) context.Invalid(RQ_LATE_TEXT("needs one number of samples"));
  AttributeMap attributes = Seeded(context);
  attributes.Set("sample_size", count[0]);
  attributes.Set("dtype", static_cast<int64_t>(context.output().dtype));
  context.Define(context.Add("Multinomial", {context.Reals(0)}, std::move(attributes)));
}

/// The spectrum of the last two dimensions, of which the last has half its length and one more.
void ConvertRfft2d(Context& context, const char*) {
  const std::vector<int64_t> length = context.ints(1);
  const SymbolicShape& shape = context.input(0).shape;
  if (length.size() != 2 || shape.size() < 2 || length[0] < 1 || length[1] < 1)
    context.Invalid(RQ_LATE_TEXT("has lengths of no two dimensions"));
  if (context.op().outputs.empty() || context.op().outputs[0] < 0)
    context.Invalid(RQ_LATE_TEXT("lacks output 0"));
  const auto number = [&context](int64_t value) {
    return context.graph().AddConstant(Tensor::Scalar(value));
  };
  Value* x = context.Add("Unsqueeze", {context.Reals(0), context.Ints({-1})});
  Value* y = context.Add("DFT", {x, number(length[1]), number(-2)}, With("onesided", int64_t{1}));
  if (length[0] != 1 || !(shape[shape.size() - 2] == Dim(1))) {
    y = context.Add("DFT", {y, number(length[0]), number(-3)});
  }
  context.graph().DefineComplex(context.op().outputs[0], y);
}

void ConvertComplexAbs(Context& context, const char*) {
  Value* x = context.graph().Complex(context.in(0));
  context.Define(context.Add("ReduceL2", {x, context.Ints({-1})}, With("keepdims", int64_t{0})));
}

namespace {

void Part(Context& context, int64_t part) {
  Value* index = context.graph().AddConstant(Tensor::Scalar(part));
  context.Define(context.Add("Gather", {context.graph().Complex(context.in(0)), index},
                             With("axis", int64_t{-1})));
}

}  // namespace

void ConvertReal(Context& context, const char*) { Part(context, 0); }
void ConvertImag(Context& context, const char*) { Part(context, 1); }

}  // namespace requant::tflite

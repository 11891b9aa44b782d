// Operators of one tensor, element by element. Functions compute in double and round the result to
// the tensor's float type once, except those with a loop in float_loops.
#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/elementwise/elementwise.h"
#include "ops/elementwise/float_loops.h"
#include "ops/elementwise/functions.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {

void InferFunction(InferContext& context) {
  RequireFloat(context, 0);
  SameAsInput(context);
}

void ApplyFunction(EvalContext& context, const Tensor& x, const Function& function) {
  double a = 0;
  double b = 0;
  if (function.attribute_a)
    a = context.attributes().Float(function.attribute_a, function.default_a);
  if (function.attribute_b)
    b = context.attributes().Float(function.attribute_b, function.default_b);
  Tensor out = context.Output(0, x.dtype(), x.shape());
  const auto run = [&](auto tag) {
    using T = decltype(tag);
    const T* from = x.data<T>();
    T* to = out.data<T>();
    for (int64_t i = 0; i < x.count(); ++i) to[i] = static_cast<T>(function.apply(from[i], a, b));
  };
  if (x.dtype() == DType::kFloat64) {
    run(double{});
  } else if (function.floats) {
    function.floats(x.data<float>(), out.data<float>(), x.count(), static_cast<float>(a),
                    static_cast<float>(b));
  } else {
    run(float{});
  }
  context.outputs[0] = std::move(out);
}

namespace {

// --- functions of a float

constexpr double kSqrtHalf = 0.70710678118654752440;
constexpr double kSqrtTwoOverPi = 0.79788456080286535588;

double Clamp01(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

double GeluExact(double x, double, double) { return 0.5 * x * (1 + std::erf(x * kSqrtHalf)); }
double GeluTanh(double x, double, double) {
  return 0.5 * x * (1 + std::tanh(kSqrtTwoOverPi * (x + 0.044715 * x * x * x)));
}

double QuickGelu(double x, double a, double) { return x / (1 + std::exp(-a * x)); }

constexpr Function Plain(const char* name, double (*apply)(double, double, double),
                         void (*floats)(const float*, float*, int64_t, float, float)) {
  return {name, apply, nullptr, 0, nullptr, 0, floats};
}

constexpr Function kFunctions[] = {
    Plain(
        "Ceil", [](double x, double, double) { return std::ceil(x); }, float_loops::Ceil),
    {"Erf", [](double x, double, double) { return std::erf(x); }},
    Plain(
        "Exp", [](double x, double, double) { return std::exp(x); }, float_loops::Exp),
    Plain(
        "Floor", [](double x, double, double) { return std::floor(x); }, float_loops::Floor),
    {"FastGelu", GeluTanh},
    {"Gelu", GeluExact},
    {"HardSigmoid", [](double x, double a, double b) { return Clamp01(a * x + b); }, "alpha", 0.2F,
     "beta", 0.5F},
    {"HardSwish", [](double x, double, double) { return x * Clamp01(x / 6 + 0.5); }},
    {"LeakyRelu", [](double x, double a, double) { return x < 0 ? a * x : x; }, "alpha", 0.01F},
    {"Log", [](double x, double, double) { return std::log(x); }},
    {"QuickGelu", QuickGelu, "alpha", 1.702F},
    Plain(
        "Reciprocal", [](double x, double, double) { return 1 / x; }, float_loops::Reciprocal),
    Plain(
        "Round", [](double x, double, double) { return std::nearbyint(x); }, float_loops::Round),
    {"Sigmoid", [](double x, double, double) { return 1 / (1 + std::exp(-x)); }},
    {"Sqrt", [](double x, double, double) { return std::sqrt(x); }},
    {"Swish", QuickGelu, "alpha", 1.0F},
    {"Tanh", [](double x, double, double) { return std::tanh(x); }},
};

Function FunctionOf(const Node& node) {
  const AttributeMap& attributes = node.attributes;
  if (node.op_type == "Gelu" && attributes.Has("approximate")) {
    const std::string how = attributes.String("approximate", "none");
    if (how == "tanh") return {"Gelu", GeluTanh};
    if (how != "none") Fail(ErrorCode::kInvalidModel, StrCat("Gelu of approximation '", how, "'"));
  }
  for (const Function& function : kFunctions) {
    if (node.op_type == function.name) return function;
  }
  Fail(ErrorCode::kInternal, StrCat("no function for ", node.op_type));
}

/// Adds a bias along the last axis of x.
Tensor WithBias(const Tensor& x, const Tensor& bias) {
  Tensor out(DType::kFloat32, x.shape());
  const int64_t width = bias.count();
  if (x.rank() < 1 || width != x.dim(x.rank() - 1)) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("a bias of ", ShapeToString(bias.shape()), " for ", ShapeToString(x.shape())));
  }
  for (int64_t i = 0; i < x.count(); ++i) {
    out.data<float>()[i] = x.data<float>()[i] + bias.data<float>()[i % width];
  }
  return out;
}

void EvaluateFunction(EvalContext& context) {
  Tensor x = context.input(0);
  if (context.has(1)) x = WithBias(x, context.input(1));  // com.microsoft::FastGelu
  ApplyFunction(context, x, FunctionOf(context.node));
}

// --- functions of every numeric dtype

void InferNumeric(InferContext& context) {
  RequireNumeric(context, 0);
  SameAsInput(context);
}

/// Applies `function` (a template call operator) to elements of any numeric dtype.
template <typename Apply>
void MapNumeric(EvalContext& context, Apply&& apply) {
  const Tensor& x = context.input(0);
  Tensor out(x.dtype(), x.shape());
  VisitDType(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    const T* from = x.data<T>();
    T* to = out.data<T>();
    for (int64_t i = 0; i < x.count(); ++i) to[i] = apply(from[i]);
  });
  context.outputs[0] = std::move(out);
}

/// -x; the least integer stays itself (two's complement).
template <typename T>
T Negated(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return -x;
  } else {
    return static_cast<T>(0 - static_cast<uint64_t>(x));
  }
}

void EvaluateAbs(EvalContext& context) {
  MapNumeric(context, [](auto x) -> decltype(x) {
    if constexpr (std::is_floating_point_v<decltype(x)>) {
      return std::fabs(x);
    } else {
      return x < decltype(x){0} ? Negated(x) : x;
    }
  });
}

void EvaluateNeg(EvalContext& context) {
  MapNumeric(context, [](auto x) { return Negated(x); });
}

void EvaluateSign(EvalContext& context) {
  MapNumeric(context, [](auto x) -> decltype(x) {
    using T = decltype(x);
    if (IsNaN(x)) return x;
    return static_cast<T>(static_cast<int>(x > T{0}) - static_cast<int>(x < T{0}));
  });
}

void EvaluateRelu(EvalContext& context) {
  // max(0, x); NaN stays.
  MapNumeric(context, [](auto x) -> decltype(x) { return x < decltype(x){0} ? 0 : x; });
}

// --- Clip

void InferClip(InferContext& context) {
  RequireNumeric(context, 0);
  for (size_t slot = 1; slot < 3; ++slot) {
    RequireSameDType(context, 0, slot);
    const SymbolicShape* shape = context.shape(slot);
    if (shape == nullptr || !context.has(slot)) continue;
    const Dim count = ProductOfDims(*shape, 0, shape->size());
    if (count.known() && count.value != 1) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("input ", slot, " of Clip must be a scalar but has ", count.value, " elements"));
    }
  }
  SameAsInput(context);
}

/// The bound in input `slot` (opset 11 on) or in the attribute (before), in x's type; empty if
/// there is none.
Tensor ClipBound(const EvalContext& context, size_t slot, const char* attribute) {
  if (context.has(slot)) {
    const Tensor& bound = context.input(slot);
    if (bound.count() != 1) {
      Fail(ErrorCode::kShapeMismatch, StrCat("input ", slot, " of Clip must be a scalar"));
    }
    return bound;
  }
  if (!context.attributes().Has(attribute)) return {};
  return CastTensor(Tensor::Scalar(context.attributes().Float(attribute, 0.0F)),
                    context.input(0).dtype());
}

void EvaluateClip(EvalContext& context) {
  const Tensor& x = context.input(0);
  Tensor out(x.dtype(), x.shape());
  const Tensor least = ClipBound(context, 1, "min");
  const Tensor most = ClipBound(context, 2, "max");
  VisitDType(x.dtype(), [&](auto tag) {
    using T = decltype(tag);
    using Limits = std::numeric_limits<T>;
    // An absent bound lets infinities pass.
    constexpr bool kFloating = std::is_floating_point_v<T>;
    T low = kFloating ? -Limits::infinity() : Limits::lowest();
    T high = kFloating ? Limits::infinity() : Limits::max();
    if (!least.empty()) low = least.data<T>()[0];
    if (!most.empty()) high = most.data<T>()[0];
    const T* from = x.data<T>();
    T* to = out.data<T>();
    for (int64_t i = 0; i < x.count(); ++i) {
      const T raised = from[i] < low ? low : from[i];  // NaN stays; max wins over min
      to[i] = raised > high ? high : raised;
    }
  });
  context.outputs[0] = std::move(out);
}

// --- logic, tests of floats

void InferNot(InferContext& context) {
  RequireDType(context, 0, {DType::kBool});
  SameAsInput(context);
}

void EvaluateNot(EvalContext& context) {
  const Tensor& x = context.input(0);
  Tensor out(DType::kBool, x.shape());
  const auto* from = x.data<uint8_t>();
  for (int64_t i = 0; i < x.count(); ++i) out.data<uint8_t>()[i] = from[i] == 0;
  context.outputs[0] = std::move(out);
}

// --- Identity, Dropout

void EvaluateIdentity(EvalContext& context) { context.outputs[0] = context.input(0); }

void InferDropout(InferContext& context) {
  SameAsInput(context);
  const Tensor* training = context.constant(2);
  const Tensor* ratio = context.constant(1);
  // A ratio of 0 drops nothing and is fine even in training (the default is 0.5).
  if (training && training->count() == 1 && training->AsInt64(0) != 0 &&
      (!context.has(1) || (ratio && ratio->count() == 1 && ratio->AsDouble(0) != 0))) {
    Fail(ErrorCode::kUnsupported, "Dropout in training mode",
         {.hint = "export the model for inference"});
  }
  // Until opset 9 the mask had the data's type.
  SetOutput(context, 1, context.opset < 10 ? context.inputs[0].dtype : DType::kBool,
            context.inputs[0].shape);
}

void EvaluateDropout(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (context.has(2) && context.input(2).count() == 1 && context.input(2).AsInt64(0) != 0 &&
      !(context.has(1) && context.input(1).count() == 1 && context.input(1).AsDouble(0) == 0)) {
    Fail(ErrorCode::kUnsupported, "Dropout in training mode",
         {.hint = "export the model for inference"});
  }
  context.outputs[0] = x;
  if (context.outputs.size() < 2) return;
  Tensor mask(DType::kBool, x.shape());
  std::fill_n(mask.data<uint8_t>(), mask.count(), uint8_t{1});
  context.outputs[1] = context.opset < 10 ? CastTensor(mask, x.dtype()) : std::move(mask);
}

constexpr OpDef kOps[] = {
    {"Abs", "", 1, 1, 1, 1, InferNumeric, EvaluateAbs, QuantRule::kUnary, FusionRule::kBroadcast},
    FunctionRow("Ceil", 1, EvaluateFunction),
    {"Clip", "", 1, 1, 3, 1, InferClip, EvaluateClip, QuantRule::kPassive, FusionRule::kBroadcast},
    {"Dropout", "", 1, 1, 3, 2, InferDropout, EvaluateDropout, QuantRule::kPassive},
    FunctionRow("Erf", 9, EvaluateFunction),
    FunctionRow("Exp", 1, EvaluateFunction),
    {"FastGelu", kMicrosoftDomain, 1, 1, 2, 1, InferFunction, EvaluateFunction, QuantRule::kUnary,
     FusionRule::kBroadcast},
    FunctionRow("Floor", 1, EvaluateFunction),
    FunctionRow("Gelu", 20, EvaluateFunction),
    FunctionRow("Gelu", 1, EvaluateFunction, kMicrosoftDomain),
    FunctionRow("HardSigmoid", 1, EvaluateFunction),
    FunctionRow("HardSwish", 14, EvaluateFunction),
    {"Identity", "", 1, 1, 1, 1, SameAsInput, EvaluateIdentity, QuantRule::kPassive,
     FusionRule::kBroadcast},
    FunctionRow("LeakyRelu", 1, EvaluateFunction),
    FunctionRow("Log", 1, EvaluateFunction),
    {"Neg", "", 1, 1, 1, 1, InferNumeric, EvaluateNeg, QuantRule::kUnary, FusionRule::kBroadcast},
    {"Not", "", 1, 1, 1, 1, InferNot, EvaluateNot, QuantRule::kFloat, FusionRule::kBroadcast},
    FunctionRow("QuickGelu", 1, EvaluateFunction, kMicrosoftDomain),
    FunctionRow("Reciprocal", 1, EvaluateFunction),
    {"Relu", "", 1, 1, 1, 1, InferNumeric, EvaluateRelu, QuantRule::kPassive,
     FusionRule::kBroadcast},
    FunctionRow("Round", 11, EvaluateFunction),
    FunctionRow("Sigmoid", 1, EvaluateFunction),
    {"Sign", "", 9, 1, 1, 1, InferNumeric, EvaluateSign, QuantRule::kUnary, FusionRule::kBroadcast},
    FunctionRow("Sqrt", 1, EvaluateFunction),
    FunctionRow("Swish", 24, EvaluateFunction),
    FunctionRow("Tanh", 1, EvaluateFunction),
};

}  // namespace

std::span<const OpDef> UnaryOps() { return kOps; }

}  // namespace requant

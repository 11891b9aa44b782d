// Activations that few networks have. Those that are little more than an exponential have loops
// over floats; the others compute in double and round once.
#include <cmath>
#include <string_view>

#include "ops/elementwise/float_exp.h"
#include "ops/elementwise/functions.h"
#include "ops/table.h"

namespace requant {
namespace {

// These functions have names because lambdas in several files have the same symbols, so that the
// division of the core into modules would leave them in the main module.
double Celu(double x, double a, double) { return x > 0 ? x : a * std::expm1(x / a); }
double Elu(double x, double a, double) { return x < 0 ? a * std::expm1(x) : x; }
double Selu(double x, double a, double g) { return x > 0 ? g * x : g * a * std::expm1(x); }
double Shrink(double x, double bias, double lambd) {
  return x < -lambd ? x + bias : x > lambd ? x - bias : 0.0;
}
double Softplus(double x, double, double) {
  // log(1 + e^x) without overflow for large x; NaN stays.
  return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x)));
}
double Mish(double x, double, double) { return x * std::tanh(Softplus(x, 0, 0)); }
double Softsign(double x, double, double) { return x / (1 + std::fabs(x)); }
double ThresholdedRelu(double x, double a, double) { return x > a ? x : 0.0; }

void Celus(const float* from, float* to, int64_t count, float a, float) {
  MapFloats(from, to, count, [a](float x) {
    // A negative alpha makes the exponent positive, which ExpMinus1 does not take.
    return x > 0 ? x : a * float_exp::ExpMinus1(x / a);
  });
}
void Elus(const float* from, float* to, int64_t count, float a, float) {
  MapFloats(from, to, count, [a](float x) { return x < 0 ? a * float_exp::ExpMinus1(x) : x; });
}
void Selus(const float* from, float* to, int64_t count, float a, float g) {
  const float scale = g * a;
  MapFloats(from, to, count,
            [=](float x) { return x > 0 ? g * x : scale * float_exp::ExpMinus1(x); });
}
/// x tanh(log(1 + e^x)) in one exponential: tanh(log(t)) = (t^2 - 1) / (t^2 + 1) with t = 1 + e^x.
/// e^-|x| is at most 1, so that nothing overflows, and no term cancels another.
void Mishes(const float* from, float* to, int64_t count, float, float) {
  MapFloats(from, to, count, [](float x) {
    const float e = float_exp::Exp(-std::fabs(x));
    const float above = x < 0 ? e * (e + 2) : 1 + 2 * e;
    const float below = x < 0 ? 2.0F : 2 * e * e;
    return x * (above / (above + below));
  });
}
void Softsigns(const float* from, float* to, int64_t count, float, float) {
  MapFloats(from, to, count, [](float x) { return x / (1 + std::fabs(x)); });
}
void ThresholdedRelus(const float* from, float* to, int64_t count, float a, float) {
  MapFloats(from, to, count, [a](float x) { return x > a ? x : 0.0F; });
}

constexpr Function kFunctions[] = {
    {"Celu", Celu, "alpha", 1.0F, nullptr, 0, Celus},
    {"Elu", Elu, "alpha", 1.0F, nullptr, 0, Elus},
    {"Mish", Mish, nullptr, 0, nullptr, 0, Mishes},
    {"Selu", Selu, "alpha", 1.67326319217681884765625F, "gamma", 1.05070102214813232421875F, Selus},
    {"Shrink", Shrink, "bias", 0.0F, "lambd", 0.5F},
    {"Softplus", Softplus},
    {"Softsign", Softsign, nullptr, 0, nullptr, 0, Softsigns},
    {"ThresholdedRelu", ThresholdedRelu, "alpha", 1.0F, nullptr, 0, ThresholdedRelus},
};

void EvaluateActivation(EvalContext& context) {
  for (Function function : kFunctions) {
    if (context.node.op_type != function.name) continue;
    if (context.node.op_type == "Celu" && !(context.attributes().Float("alpha", 1) > 0)) {
      function.floats = nullptr;
    }
    ApplyFunction(context, context.input(0), function);
  }
}

constexpr OpDef kOps[] = {
    FunctionRow("Celu", 12, EvaluateActivation),
    FunctionRow("Elu", 1, EvaluateActivation),
    FunctionRow("Mish", 18, EvaluateActivation),
    FunctionRow("Selu", 1, EvaluateActivation),
    FunctionRow("Shrink", 9, EvaluateActivation),
    FunctionRow("Softplus", 1, EvaluateActivation),
    FunctionRow("Softsign", 1, EvaluateActivation),
    FunctionRow("ThresholdedRelu", 1, EvaluateActivation),
};

}  // namespace

std::span<const OpDef> ActivationOps() { return kOps; }

}  // namespace requant

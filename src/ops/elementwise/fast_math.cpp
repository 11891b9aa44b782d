// The fast approximations with which the pass FastMath replaces Exp, Tanh, Sigmoid, Erf, Gelu and
// Softmax, in double by the formulas of numeric/fast_math.h.
#include "numeric/fast_math.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

double FastExp(double x) {
  using namespace fast_math;
  if (std::isnan(x)) return x;
  if (x < kExpLow) return 0;
  const double clamped = std::min(x, kExpHigh);
  const double n = std::floor(clamped / (2 * kHalfLn2) + 0.5);
  const double r = clamped - n * 2 * kHalfLn2;
  const double e = 1 + r * (kE1 + r * (kE2 + r * (kE3 + r * kE4)));
  return std::ldexp(e, static_cast<int>(n));
}

double FastTanh(double x) {
  using namespace fast_math;
  if (std::isnan(x)) return x;
  const double t = std::clamp(x, -kTanhEnd, kTanhEnd);
  const double s = t * t;
  return t * (kTanhP0 + s * (kTanhP1 + s * (kTanhP2 + s))) /
         (kTanhP0 + s * (kTanhQ1 + s * (kTanhQ2 + s * kTanhQ3)));
}

double FastSigmoid(double x) { return 0.5 + 0.5 * FastTanh(0.5 * x); }

double FastErf(double x) {
  double p = 0;
  const double most = std::fabs(x);
  for (int i = 5; i >= 0; --i) p = p * most + fast_math::kErf[i];
  p = std::pow(1 + p * most, 16);
  return std::copysign(1 - 1 / p, x);
}

double FastErfGelu(double x) { return 0.5 * x * (1 + FastErf(x * 0.70710678118654752440)); }

struct Function {
  const char* name;
  double (*apply)(double x);
};
constexpr Function kFunctions[] = {{"FastExp", FastExp},
                                   {"FastTanh", FastTanh},
                                   {"FastSigmoid", FastSigmoid},
                                   {"FastErf", FastErf},
                                   {"FastErfGelu", FastErfGelu}};

void InferFast(InferContext& context) {
  RequireFloat(context, 0);
  SameAsInput(context);
}

void EvaluateFast(EvalContext& context) {
  const Tensor& x = context.input(0);
  const auto* function =
      std::find_if(std::begin(kFunctions), std::end(kFunctions),
                   [&](const Function& row) { return context.node.op_type == row.name; });
  Tensor out(DType::kFloat32, x.shape());
  for (int64_t i = 0; i < x.count(); ++i) {
    out.data<float>()[i] = static_cast<float>(function->apply(x.AsDouble(i)));
  }
  context.outputs[0] = std::move(out);
}

void EvaluateFastSoftmax(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (x.rank() == 0) Fail(ErrorCode::kInvalidModel, "FastSoftmax of a scalar");
  Tensor out(DType::kFloat32, x.shape());
  const int64_t cols = x.dim(x.rank() - 1);
  for (int64_t row = 0; row < x.count(); row += cols) {
    const float* from = x.data<float>() + row;
    const double most = *std::max_element(from, from + cols);
    double sum = 0;
    for (int64_t i = 0; i < cols; ++i) sum += FastExp(from[i] - most);
    for (int64_t i = 0; i < cols; ++i) {
      out.data<float>()[row + i] = static_cast<float>(FastExp(from[i] - most) / sum);
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef Row(const char* name) {
  return {name,
          kRequantDomain,
          1,
          1,
          1,
          1,
          InferFast,
          EvaluateFast,
          QuantRule::kUnary,
          FusionRule::kBroadcast};
}

constexpr OpDef kOps[] = {
    Row("FastErf"),
    Row("FastErfGelu"),
    Row("FastExp"),
    Row("FastSigmoid"),
    Row("FastTanh"),
    {"FastSoftmax", kRequantDomain, 1, 1, 1, 1, InferFast, EvaluateFastSoftmax, QuantRule::kFloat,
     FusionRule::kOutFusable},
};

}  // namespace

std::span<const OpDef> FastMathOps() { return kOps; }

}  // namespace requant

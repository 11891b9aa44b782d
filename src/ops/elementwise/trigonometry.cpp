// Trigonometric and hyperbolic functions (ONNX, Operators.md), computed in double and rounded to
// the tensor's float type once. They have a file of their own, so that networks without them need
// not load their code, nor the C library's.
#include <cmath>
#include <utility>

#include "ops/elementwise/float_sine.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

struct Function {
  const char* name;
  double (*apply)(double x);
  void (*floats)(const float* from, float* to, int64_t count) = nullptr;
};

constexpr Function kFunctions[] = {
    {"Acos", [](double x) { return std::acos(x); }},
    // musl's acosh ignores the sign of values below -1.
    {"Acosh", [](double x) { return x < 1 ? NAN : std::acosh(x); }},
    {"Asin", [](double x) { return std::asin(x); }},
    {"Asinh", [](double x) { return std::asinh(x); }},
    {"Atan", [](double x) { return std::atan(x); }},
    {"Atanh", [](double x) { return std::atanh(x); }},
    {"Cos", [](double x) { return std::cos(x); }, float_sine::Cos},
    {"Cosh", [](double x) { return std::cosh(x); }},
    {"Sin", [](double x) { return std::sin(x); }, float_sine::Sin},
    {"Sinh", [](double x) { return std::sinh(x); }},
    {"Tan", [](double x) { return std::tan(x); }},
};

void Infer(InferContext& context) {
  RequireFloat(context, 0);
  SameAsInput(context);
}

void Evaluate(EvalContext& context) {
  const Tensor& x = context.input(0);
  Tensor out = context.Output(0, x.dtype(), x.shape());
  for (const Function& function : kFunctions) {
    if (context.node.op_type != function.name) continue;
    if (x.dtype() == DType::kFloat32 && function.floats != nullptr) {
      function.floats(x.data<float>(), out.data<float>(), x.count());
      break;
    }
    for (int64_t i = 0; i < x.count(); ++i) {
      if (x.dtype() == DType::kFloat64) {
        out.data<double>()[i] = function.apply(x.data<double>()[i]);
      } else {
        out.data<float>()[i] = static_cast<float>(function.apply(x.data<float>()[i]));
      }
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef Row(const char* name, int since_version) {
  return {
      name, "", since_version, 1, 1, 1, Infer, Evaluate, QuantRule::kUnary, FusionRule::kBroadcast};
}

constexpr OpDef kRows[] = {
    Row("Acos", 7), Row("Acosh", 9), Row("Asin", 7), Row("Asinh", 9),
    Row("Atan", 7), Row("Atanh", 9), Row("Cos", 7),  Row("Cosh", 9),
    Row("Sin", 7),  Row("Sinh", 9),  Row("Tan", 7),
};

}  // namespace

std::span<const OpDef> TrigonometryOps() { return kRows; }

}  // namespace requant

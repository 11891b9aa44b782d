// IsInf, IsNaN: tests of floats, element by element.
#include <cmath>

#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferFloatTest(InferContext& context) {
  RequireFloat(context, 0);
  SetOutput(context, 0, DType::kBool, context.inputs[0].shape);
}

template <typename Test>
void MapTest(EvalContext& context, Test&& test) {
  const Tensor& x = context.input(0);
  Tensor out(DType::kBool, x.shape());
  auto* to = out.data<uint8_t>();
  if (x.dtype() == DType::kFloat64) {
    for (int64_t i = 0; i < x.count(); ++i) to[i] = test(x.data<double>()[i]);
  } else {
    for (int64_t i = 0; i < x.count(); ++i) to[i] = test(double{x.data<float>()[i]});
  }
  context.outputs[0] = std::move(out);
}

void EvaluateIsNaN(EvalContext& context) {
  MapTest(context, [](double x) { return std::isnan(x); });
}

void EvaluateIsInf(EvalContext& context) {
  const bool negative = context.attributes().Int("detect_negative", 1) != 0;
  const bool positive = context.attributes().Int("detect_positive", 1) != 0;
  MapTest(context, [=](double x) { return std::isinf(x) && (x < 0 ? negative : positive); });
}

constexpr OpDef kOps[] = {
    {"IsInf", "", 10, 1, 1, 1, InferFloatTest, EvaluateIsInf, QuantRule::kFloat,
     FusionRule::kBroadcast},
    {"IsNaN", "", 9, 1, 1, 1, InferFloatTest, EvaluateIsNaN, QuantRule::kFloat,
     FusionRule::kBroadcast},
};

}  // namespace

std::span<const OpDef> FloatTestOps() { return kOps; }

}  // namespace requant

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

template <typename T, typename Test>
void MapTest(const Tensor& x, Tensor& out, Test test) {
  const T* from = x.data<T>();
  auto* to = out.data<uint8_t>();
  const int64_t count = x.count();
  for (int64_t i = 0; i < count; ++i) to[i] = test(from[i]) ? 1 : 0;
}

template <typename Test>
void EvaluateTest(EvalContext& context, Test test) {
  const Tensor& x = context.input(0);
  Tensor out = context.Output(0, DType::kBool, x.shape());
  if (x.dtype() == DType::kFloat64) {
    MapTest<double>(x, out, test);
  } else {
    MapTest<float>(x, out, test);
  }
  context.outputs[0] = std::move(out);
}

void EvaluateIsNaN(EvalContext& context) {
  EvaluateTest(context, [](auto x) { return x != x; });
}

void EvaluateIsInf(EvalContext& context) {
  const bool negative = context.attributes().Int("detect_negative", 1) != 0;
  const bool positive = context.attributes().Int("detect_positive", 1) != 0;
  EvaluateTest(context, [=](auto x) {
    return (positive & (x == HUGE_VAL)) | (negative & (x == -HUGE_VAL));
  });
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

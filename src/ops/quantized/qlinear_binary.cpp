// com.microsoft::QLinearAdd and QLinearMul (ONNX Runtime docs/ContribOperators.md), by the
// normative scalars of numeric/qadd.h. Inputs: A, scale, zero, B, scale, zero, C scale, zero.
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/multiplier.h"
#include "numeric/qadd.h"
#include "numeric/requantize_prepare.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/quantized/qlinear.h"
#include "ops/table.h"

namespace requant {
namespace {

constexpr size_t kB = 3;
constexpr size_t kCScale = 6;
constexpr size_t kCZero = 7;

void InferQLinearBinary(InferContext& context) {
  for (const size_t slot : {size_t{0}, kB, kCZero}) {
    RequireDType(context, slot, {DType::kInt8, DType::kUint8});
  }
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, context.inputs[kB].dtype, 4, 5);
  CheckOperand(context, DType::kUndefined, kCScale, kCZero);
  std::optional<SymbolicShape> shape;
  if (context.shape(0) && context.shape(kB)) {
    shape = BroadcastSymbolic(*context.shape(0), *context.shape(kB));
  }
  SetOutput(context, 0, QuantizedDType(context, kCZero, context.inputs[0].dtype), shape);
}

struct Operands {
  const Tensor &a, &b;
  QuantOperand qa, qb, qc;
  DType dtype;  // of the output
};

Operands ReadOperands(const EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(kB);
  const DType dtype = QuantizedDType(context, kCZero, a.dtype());
  return {a,
          b,
          ReadOperand(context, a.dtype(), 1, 2),
          ReadOperand(context, b.dtype(), 4, 5),
          ReadOperand(context, dtype, kCScale, kCZero),
          dtype};
}

/// Computes combine(a - zero, b - zero), the output's integer, for all elements.
template <typename Combine>
Tensor Broadcast(const Operands& in, Combine&& combine) {
  const std::vector<int32_t> a = CenteredValues(in.a, in.qa.zeros[0]);
  const std::vector<int32_t> b = CenteredValues(in.b, in.qb.zeros[0]);
  Tensor out(in.dtype, BroadcastShapes(in.a.shape(), in.b.shape()));
  ForEachRow(PlanRows(out.shape(), {&in.a.shape(), &in.b.shape()}), [&](const RowStep& row) {
    for (int64_t i = 0; i < row.length; ++i) {
      StoreByte(out.raw(), row.output + i,
                combine(a[static_cast<size_t>(row.input[0] + i * row.step[0])],
                        b[static_cast<size_t>(row.input[1] + i * row.step[1])]));
    }
  });
  return out;
}

void EvaluateQLinearAdd(EvalContext& context) {
  const Operands in = ReadOperands(context);
  const float scale_a = in.qa.scales[0], scale_b = in.qb.scales[0], scale_c = in.qc.scales[0];
  const int32_t zero = in.qc.zeros[0];
  const int32_t lo = ByteMin(in.dtype), hi = ByteMax(in.dtype);
  if (context.requantize == RequantizeMode::kFloat) {
    context.outputs[0] = Broadcast(in, [&](int32_t a, int32_t b) {
      return QAddFloat(a, b, scale_a, scale_b, scale_c, zero, lo, hi);
    });
    return;
  }
  // All fixed modes compute this: the tie rules of products do not apply to a sum of two.
  const QAddMultipliers multipliers = MakeQAddMultipliers(static_cast<double>(scale_a) / scale_c,
                                                          static_cast<double>(scale_b) / scale_c);
  context.outputs[0] = Broadcast(
      in, [&](int32_t a, int32_t b) { return QAddFixed(a, b, multipliers, zero, lo, hi); });
}

void EvaluateQLinearMul(EvalContext& context) {
  const Operands in = ReadOperands(context);
  const double multiplier =
      ProductMultiplier(context.requantize, in.qa.scales[0], in.qb.scales[0], in.qc.scales[0]);
  const PreparedRequantize prepared =
      PrepareRequantize(context.requantize, {multiplier}, {kAnyAccumulator}, in.qc.zeros[0],
                        ByteMin(in.dtype), ByteMax(in.dtype));
  const RequantizeParams params = prepared.Params();
  context.outputs[0] =
      Broadcast(in, [&](int32_t a, int32_t b) { return ApplyRequantize(a * b, params, 0); });
}

constexpr OpDef kRows[] = {
    OnIntegers({"QLinearAdd", kMicrosoftDomain, 1, 7, 8, 1, InferQLinearBinary, EvaluateQLinearAdd,
                QuantRule::kFloat, FusionRule::kBroadcast}),
    OnIntegers({"QLinearMul", kMicrosoftDomain, 1, 7, 8, 1, InferQLinearBinary, EvaluateQLinearMul,
                QuantRule::kFloat, FusionRule::kBroadcast}),
};

}  // namespace

std::span<const OpDef> QLinearBinaryOps() { return kRows; }

}  // namespace requant

// com.microsoft::QLinearSigmoid and QLinearLeakyRelu, which are tables of 256 entries, and
// QLinearSoftmax, which goes through float. Inputs: X, scale, zero, Y scale, zero (ONNX Runtime
// docs/ContribOperators.md).
#include <algorithm>
#include <cmath>
#include <vector>

#include "numeric/affine.h"
#include "ops/infer_util.h"
#include "ops/quantized/qlinear.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

constexpr size_t kYScale = 3;
constexpr size_t kYZero = 4;

void InferQLinearUnary(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireDType(context, kYZero, {DType::kInt8, DType::kUint8});
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, DType::kUndefined, kYScale, kYZero);
  SetOutput(context, 0, QuantizedDType(context, kYZero, context.inputs[0].dtype),
            context.inputs[0].shape);
}

template <typename Function>
void EvaluateByTable(EvalContext& context, Function&& function) {
  const Tensor& x = context.input(0);
  RequireBytes(x, context.node);
  const DType dtype = QuantizedDType(context, kYZero, x.dtype());
  const ByteTable table =
      MakeByteTable(ToByteScale(ReadOperand(context, x.dtype(), 1, 2), x.dtype()),
                    ToByteScale(ReadOperand(context, dtype, kYScale, kYZero), dtype), function);
  context.outputs[0] = LookUp(x, table.data(), dtype);
}

void EvaluateQLinearSigmoid(EvalContext& context) {
  EvaluateByTable(context, [](float real) { return 1.0F / (1.0F + std::exp(-real)); });
}

void EvaluateQLinearLeakyRelu(EvalContext& context) {
  const float alpha = context.attributes().Float("alpha", 0.01F);
  EvaluateByTable(context, [alpha](float real) { return real >= 0 ? real : alpha * real; });
}

// --- QLinearSoftmax

void InferQLinearSoftmax(InferContext& context) {
  if (const SymbolicShape* x = context.shape(0)) {
    NormalizeAxis(context.attributes().Int("axis", -1), static_cast<int64_t>(x->size()));
  }
  InferQLinearUnary(context);
}

void EvaluateQLinearSoftmax(EvalContext& context) {
  const Tensor& x = context.input(0);
  RequireBytes(x, context.node);
  const DType dtype = QuantizedDType(context, kYZero, x.dtype());
  const QuantOperand qx = ReadOperand(context, x.dtype(), 1, 2);
  const ByteScale to = ToByteScale(ReadOperand(context, dtype, kYScale, kYZero), dtype);
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", -1), x.rank()));
  // Before opset 13 Softmax runs over everything from the axis on; the attribute `opset` tells the
  // version.
  const bool flat = context.attributes().Int("opset", 13) < 13;
  const auto from = x.shape().begin() + static_cast<std::ptrdiff_t>(axis);
  const int64_t length = flat ? NumElements(Shape(from, x.shape().end())) : *from;
  const int64_t inner = flat ? 1 : NumElements(Shape(from + 1, x.shape().end()));
  Tensor out(dtype, x.shape());
  const std::vector<int32_t> values = CenteredValues(x, 0);
  const int64_t rows = x.count() > 0 ? x.count() / length : 0;
  // ONNX Runtime multiplies by the integer part of 1 / scale (qlinear_softmax.cc).
  const bool whole = context.requantize == RequantizeMode::kFloat;
  const float factor = std::floor(1.0F / to.scale);
  std::vector<float> terms(static_cast<size_t>(length));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t start = row / inner * length * inner + row % inner;
    const auto at = [&](int64_t i) { return static_cast<size_t>(start + i * inner); };
    int32_t largest = values[at(0)];
    for (int64_t i = 1; i < length; ++i) largest = std::max(largest, values[at(i)]);
    double total = 0;
    for (int64_t i = 0; i < length; ++i) {
      const float term = std::exp(qx.scales[0] * static_cast<float>(values[at(i)] - largest));
      terms[static_cast<size_t>(i)] = term;
      total += term;
    }
    for (int64_t i = 0; i < length; ++i) {
      auto real = static_cast<float>(terms[static_cast<size_t>(i)] / total);
      if (whole && factor > 0) real *= factor * to.scale;
      StoreByte(out.raw(), static_cast<int64_t>(at(i)), QuantizeByte(real, to, to.Min(), to.Max()));
    }
  }
  context.outputs[0] = out;
}

// The zero point of X, which precedes the scale of Y, may be left out.
constexpr OpDef kRows[] = {
    OnIntegers({"QLinearSigmoid", kMicrosoftDomain, 1, 2, 5, 1, InferQLinearUnary,
                EvaluateQLinearSigmoid, QuantRule::kFloat, FusionRule::kBroadcast}),
    OnIntegers({"QLinearLeakyRelu", kMicrosoftDomain, 1, 2, 5, 1, InferQLinearUnary,
                EvaluateQLinearLeakyRelu, QuantRule::kFloat, FusionRule::kBroadcast}),
    OnIntegers({"QLinearSoftmax", kMicrosoftDomain, 1, 2, 5, 1, InferQLinearSoftmax,
                EvaluateQLinearSoftmax, QuantRule::kFloat, FusionRule::kOutFusable}),
};

}  // namespace

std::span<const OpDef> QLinearFunctionOps() { return kRows; }

}  // namespace requant

#include "ops/normalization/integer_normalizations.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "numeric/integer_softmax.h"
#include "ops/infer_util.h"
#include "ops/quantized/wide_rows.h"
#include "ops/shape/select.h"

namespace requant {

std::optional<IntegerLayerNorm> MakeLayerNorm(const Tensor& gamma, const Tensor* beta,
                                              int64_t length, const LayerNormScales& scales,
                                              DType out, double epsilon, bool center) {
  if (gamma.count() != length || (beta && beta->count() != length)) return std::nullopt;
  IntegerLayerNorm made;
  made.lo = CodeMin(out);
  made.hi = CodeMax(out);
  const std::vector<double> offsets = beta ? beta->ToDoubles() : std::vector<double>();
  if (!MakeIntegerLayerNorm(gamma.ToDoubles(), offsets, scales, epsilon, center, made)) {
    return std::nullopt;
  }
  return made;
}

void InferNormalization(InferContext& context) {
  RequireDType(context, 0, kWideCodes);
  RequireDType(context, 4, kWideCodes);
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, DType::kUndefined, 3, 4);
  for (const size_t slot : {5, 6}) RequireDType(context, slot, {DType::kFloat32});
  if (const SymbolicShape* x = context.shape(0)) {
    NormalizeAxis(context.attributes().Int("axis", -1), static_cast<int64_t>(x->size()));
  }
  SetOutput(context, 0, QuantizedDType(context, 4, context.inputs[0].dtype),
            context.inputs[0].shape);
}

void EvaluateIntegerSoftmax(EvalContext& context) {
  const Tensor& x = context.input(0);
  const DType dtype = QuantizedDType(context, 4, x.dtype());
  const QuantOperand qx = ReadOperand(context, x.dtype(), 1, 2);
  const QuantOperand qy = ReadOperand(context, dtype, 3, 4);
  const IntegerSoftmax softmax =
      MakeIntegerSoftmax(qx.scales[0], qy.scales[0], qy.zeros[0], CodeMax(dtype));
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", -1), x.rank()));
  const int64_t length = x.shape()[axis];
  int64_t inner = 1;
  for (size_t i = axis + 1; i < x.shape().size(); ++i) inner *= x.shape()[i];
  Tensor out(dtype, x.shape());
  const int64_t rows = x.count() > 0 ? x.count() / length : 0;
  std::vector<uint32_t> terms(static_cast<size_t>(length));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t start = row / inner * length * inner + row % inner;
    int64_t most = CodeMin(x.dtype());
    for (int64_t i = 0; i < length; ++i) most = std::max(most, x.AsInt64(start + i * inner));
    uint64_t sum = 0;
    for (int64_t i = 0; i < length; ++i) {
      const auto distance = static_cast<uint32_t>(most - x.AsInt64(start + i * inner));
      terms[static_cast<size_t>(i)] = SoftmaxTerm(softmax, distance);
      sum += terms[static_cast<size_t>(i)];
    }
    const SoftmaxDivisor by = DivideSoftmax(softmax, sum);
    for (int64_t i = 0; i < length; ++i) {
      StoreCode(out.raw(), dtype, start + i * inner,
                SoftmaxCode(softmax, by, terms[static_cast<size_t>(i)]));
    }
  }
  context.outputs[0] = out;
}

void EvaluateIntegerLayerNorm(EvalContext& context) {
  const Tensor& x = context.input(0);
  const DType dtype = QuantizedDType(context, 4, x.dtype());
  const QuantOperand qx = ReadOperand(context, x.dtype(), 1, 2);
  const QuantOperand qy = ReadOperand(context, dtype, 3, 4);
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", -1), x.rank()));
  int64_t length = 1;
  for (size_t i = axis; i < x.shape().size(); ++i) length *= x.shape()[i];
  Tensor out(dtype, x.shape());
  if (x.count() > 0) {
    const auto norm =
        MakeLayerNorm(context.input(5), context.has(6) ? &context.input(6) : nullptr, length,
                      {qx.scales[0], qx.zeros[0], qy.scales[0], qy.zeros[0]}, dtype,
                      static_cast<double>(context.attributes().Float("epsilon", 1e-5F)),
                      context.attributes().Int("center", 1) != 0);
    if (!norm) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat(RQ_LATE_TEXT("rows of "), length,
                  RQ_LATE_TEXT(" elements cannot be normalized in integers with these scales")),
           {.node = context.node.name,
            .hint = RQ_LATE_TEXT("quantize without integerNormalizations")});
    }
    for (int64_t start = 0; start < x.count(); start += length) {
      int64_t sum = 0, squares = 0;
      for (int64_t i = 0; i < length; ++i) {
        const int64_t q = x.AsInt64(start + i);
        sum += q;
        squares += q * q;
      }
      const LayerNormRow row = PrepareLayerNormRow(*norm, sum, squares, 0);
      for (int64_t i = 0; i < length; ++i) {
        StoreCode(out.raw(), dtype, start + i,
                  LayerNormCode(*norm, row, static_cast<int32_t>(x.AsInt64(start + i)),
                                static_cast<size_t>(i)));
      }
    }
  }
  context.outputs[0] = out;
}

}  // namespace requant

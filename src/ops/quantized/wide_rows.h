// Types and helpers that the rows of several wide operators share.
#pragma once

#include <initializer_list>
#include <vector>

#include "ops/quantized/qlinear.h"
#include "ops/quantized/wide.h"

namespace requant {

inline constexpr std::initializer_list<DType> kWideCodes = {DType::kInt8, DType::kUint8,
                                                            DType::kInt16, DType::kUint16};

inline WideOutput WideOutputOf(const QuantOperand& y, DType dtype) {
  return {y.zeros[0], CodeMin(dtype), CodeMax(dtype)};
}

/// A tensor's integers less their zero point.
inline std::vector<double> CenteredCodes(const Tensor& tensor, int32_t zero) {
  std::vector<double> out = tensor.ToDoubles();
  for (double& value : out) value -= zero;
  return out;
}

// integer_normalizations.cpp
void InferNormalization(InferContext& context);
void EvaluateIntegerSoftmax(EvalContext& context);
void EvaluateIntegerLayerNorm(EvalContext& context);

constexpr OpDef WideRow(const char* name, int least, int most, void (*infer)(InferContext&),
                        void (*evaluate)(EvalContext&), FusionRule fusion,
                        bool (*rewrite)(Graph&) = nullptr, int outputs = 1) {
  OpDef row = OnIntegers(
      {name, kRequantDomain, 1, least, most, outputs, infer, evaluate, QuantRule::kFloat, fusion});
  row.rewrite = rewrite;
  return row;
}

}  // namespace requant

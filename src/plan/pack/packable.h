// Steps whose operands and results may be packed, and the codes that they compute.
#pragma once

#include <algorithm>

#include "kernels/variant/missing.h"
#include "numeric/few_bits.h"
#include "plan/lower/convolution/window_step.h"
#include "plan/lower/elementwise/lut_step.h"
#include "plan/lower/elementwise/qbinary_step.h"
#include "plan/lower/reduction/pool_step.h"
#include "plan/lower/steps.h"

namespace requant {

inline ConvQ8Step* AsConv(Step& step) {
  return step.kind() == StepKind::kConvQ8 ? static_cast<ConvQ8Step*>(&step) : nullptr;
}
/// The convolution, or the product of integers that gives their sums (its second input is no
/// residual).
inline ConvQ8Step* AsProduct(Step& step) {
  return step.kind() == StepKind::kIntegerProduct ? static_cast<ConvQ8Step*>(&step) : AsConv(step);
}
inline DepthwiseQ8Step* AsDepthwise(Step& step) {
  return step.kind() == StepKind::kDepthwiseQ8 ? static_cast<DepthwiseQ8Step*>(&step) : nullptr;
}
inline PoolStep<MaxPoolQ8Params>* AsMaxPool(Step& step) {
  return step.kind() == StepKind::kMaxPoolQ8 ? static_cast<PoolStep<MaxPoolQ8Params>*>(&step)
                                             : nullptr;
}
inline QBinaryStep<QAddParams>* AsAdd(Step& step) {
  return step.kind() == StepKind::kQAdd ? static_cast<QBinaryStep<QAddParams>*>(&step) : nullptr;
}
inline LutStep* AsLut(Step& step) {
  return step.kind() == StepKind::kLut ? static_cast<LutStep*>(&step) : nullptr;
}

/// Whether the step's kernel reads or writes packed values; of convolutions those for few bits do.
template <typename Params>
bool KnowsNibbles(const WindowStep<Params>& step) {
  const auto rows = KernelsOf(step.params);
  return std::any_of(rows.begin(), rows.end(), [&](const auto& row) {
    return step.kernel == row.name && IsLowBits(row.missing);
  });
}

/// Whether pixels lie without gaps, and the channels of each group are whole blocks.
inline bool IsBlocked(int32_t channels, int32_t groups, int32_t stride, int32_t block) {
  return channels == stride && channels / groups % block == 0;
}

inline bool HasResidual(const ConvQ8Step& step) { return step.inputs.size() > 1; }

/// The codes that a step computes which can write packed values.
CodeRange CodesOfStep(Step& step);

}  // namespace requant

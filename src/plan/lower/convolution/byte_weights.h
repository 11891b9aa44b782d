// Weights of 8 bits of convolutions and products.
#pragma once

#include <cstdint>

#include "kernels/conv/table.h"
#include "plan/builder.h"

namespace requant {

/// Weights of 8 bits. Those of a lean constant have `facts` instead of `data`.
struct ByteWeights : ConvQ8Weights {
  ByteWeights() = default;
  ByteWeights(const ConvQ8Weights& weights) : ConvQ8Weights(weights) {}
  const Tensor* lean = nullptr;  ///< the lean constant, if it is one
};

/// The codes of a constant of bytes; `zero_points` as in ConvQ8Weights. The facts of a lean one are
/// found once for all plans of the model.
ByteWeights ByteWeightsOf(PlanBuilder& builder, const ConvWeightsLayout& layout,
                          const Tensor& constant, const int32_t* zero_points);

/// The weights in the form of this row, which live as long as the plan. The bytes of a lean
/// constant are dropped where the form can be unpacked.
const uint8_t* PackBytes(PlanBuilder& builder, const ConvQ8Kernel& row, const ByteWeights& weights);

}  // namespace requant

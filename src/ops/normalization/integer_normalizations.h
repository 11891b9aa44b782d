// Softmax and layer normalization from codes to codes, in integers (numeric/integer_softmax.h,
// numeric/integer_layer_norm.h). Both are operators of ai.requant that the quantizer writes; codes
// have 8 or 16 bits, in any combination.
//
//   IntegerSoftmax             x, x scale, x zero point, y scale, y zero point
//       {axis = -1}            over one axis
//   IntegerLayerNormalization  the same, then gamma and (unless left out) beta, float32
//       {axis = -1, epsilon = 1e-5, center = 1}   over all axes from `axis` on; center = 0 is
//                              RMSNormalization
#pragma once

#include <optional>

#include "numeric/integer_layer_norm.h"
#include "ops/op.h"

namespace requant {

/// A LayerNormalization, RMSNormalization or IntegerLayerNormalization on codes, made for a row.
/// nullopt where integers do not hold the results, as MakeIntegerLayerNorm says, or where gamma and
/// beta have not one number for each element of a row.
std::optional<IntegerLayerNorm> MakeLayerNorm(const Tensor& gamma, const Tensor* beta,
                                              int64_t length, const LayerNormScales& scales,
                                              DType out, double epsilon, bool center);

}  // namespace requant

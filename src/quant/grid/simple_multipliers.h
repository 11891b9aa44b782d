// Chooses scales of weights with which requantization is fast.
#pragma once

#include "quant/config/tensor_quantization_config.h"

namespace requant {

/// Widens the steps of a layer's weights, by at most 2 %, so that the multipliers s_in * s_w /
/// s_out are k / 2^16 with an integer k (SimpleMultiplier of numeric/requantize_prepare.h). Of
/// eight neighboring channels, which vector kernels requantize together, all or none change.
/// Weights and outputs of fewer than 5 bits, grids of powers of two, and grids that no integer
/// operator has stay unchanged. `config` is the weights' config with its scales set. Returns the
/// scale whose multiplier is 2^-16, of which the simple ones are multiples, or 0 if the layer stays
/// unchanged.
double SimplifyMultipliers(double input_scale, const TensorQuantizationConfig& output,
                           TensorQuantizationConfig& config);

/// k, or the next integer where many sums times k would be ties.
double NextWithFewTies(double k);

}  // namespace requant

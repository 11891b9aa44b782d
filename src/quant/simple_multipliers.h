// Scales of weights that requantization is fast with.
#pragma once

#include "quant/tensor_quantization_config.h"

namespace requant {

/// Widens the steps of a layer's weights, by at most 2 %, so that the multipliers s_in * s_w /
/// s_out are k / 2^16 with a whole k (SimpleMultiplier of numeric/requantize_prepare.h): eight
/// channels that are neighbours, which vector kernels requantize together, all or none. Left as
/// they are: weights and outputs of fewer than 5 bits and grids of powers of two or that no integer
/// operator has. `config` is that of the weights, with its scales set. Returns the scale whose
/// multiplier is 2^-16, of which the simple ones are multiples; 0 if the layer stays as it is.
double SimplifyMultipliers(double input_scale, const TensorQuantizationConfig& output,
                           TensorQuantizationConfig& config);

/// k, or the number behind it where many sums times k would be ties.
double NextWithFewTies(double k);

}  // namespace requant

// Weights and biases of convolutions and products.
#pragma once

#include "tflite/converter.h"

namespace requant::tflite {

/// The codes of weights with their dimensions permuted; those of four bits get a byte each.
Tensor Bytes(const Tensor& codes, const std::vector<int64_t>& perm);

/// The reals of weights with their dimensions permuted.
Value* Weights(Context& context, size_t slot, const std::vector<int64_t>& perm);

/// The reals of the bias of a product of `input` and `weights`. The integers of a quantized one are
/// at the scale input * weights, whether the file says so or not
/// (tensorflow/lite/g3doc/performance/quantization_spec.md).
Value* Bias(Context& context, size_t slot, size_t input, size_t weights);

}  // namespace requant::tflite

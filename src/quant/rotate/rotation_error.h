// The errors of rounded products whose inputs are rotated.
#pragma once

#include <vector>

#include "quant/rotate/hadamard.h"
#include "quant/weights/input_products.h"
#include "quant/weights/products.h"

namespace requant {

/// How to round in a trial.
struct RotationTrial {
  const WeightOnlyOptions& weights;
  bool feedback = false;                       // RoundWithFeedback
  const HadamardRotation* rotation = nullptr;  // nullptr: none
  const Tensor* factors = nullptr;             // of a normalization: its channels, or nullptr
};

/// Rounds up to 64 columns of products that read one value x, whose moments are `inputs`, and
/// returns E[((w - q) x)^2] / E[(w x)^2] of each. Without `inputs` the moments of x, or of what its
/// factors multiply, are those of white noise.
std::vector<double> TryRotation(const std::vector<Product>& products, const InputProducts* inputs,
                                const RotationTrial& trial);

}  // namespace requant

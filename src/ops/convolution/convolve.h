// The inner loops of the convolution references, float and integer: double holds every sum of
// integers that can occur exactly.
#pragma once

#include <cstdint>

#include "ops/shape_rules.h"

namespace requant {

/// Stores `sum` as an element of a float32 or float64 tensor.
void StoreSum(Tensor& out, int64_t index, double sum);

/// sums += one input plane convolved with one kernel.
void AddConvolved(const Geometry& g, const double* plane, const double* kernel, double* sums);

/// sums += every input element times the kernel, placed at the element's outputs. In `g`, input and
/// output are those of the transposed operation.
void AddTransposed(const Geometry& g, const double* plane, const double* kernel, double* sums);

/// The inferred shape of a ConvTranspose, float or integer: weights are [in, out / group,
/// kernel...], `bias` may be null. Throws kInvalidModel, kShapeMismatch, kUnsupported (more than 5
/// dimensions).
SymbolicShape TransposeOutputShape(const AttributeMap& attributes, const SymbolicShape& x,
                                   const SymbolicShape& weight, const SymbolicShape* bias);

/// The geometry of a ConvTranspose. Input and output are those of the transposed operation: input i
/// and tap k meet at output i * stride + k * dilation - pad_begin.
Geometry TransposedGeometry(const AttributeMap& attributes, const Shape& input,
                            const Shape& weights);

}  // namespace requant

#pragma once

#include <map>
#include <string>

#include "ir/graph.h"

namespace requant {

/// real = scale * (q - zero_point).
struct ValueAffine {
  float scale = 1;
  int32_t zero_point = 0;
};

/// Scales and zero points of the 8-bit values of an integer graph, by name. They are read from the
/// operator that produces a value or, where a table does, from those that read it, and carried
/// through passive operators. Values without a constant per-tensor scale are left out.
std::map<std::string, ValueAffine> FindAffineValues(const Graph& graph);

Tensor DequantizeTensor(const Tensor& quantized, const ValueAffine& affine);
/// Quantizes to int8 or uint8, half to even, with saturation.
Tensor QuantizeTensor(const Tensor& values, const ValueAffine& affine, DType dtype);
/// Clamps float32 values to the range that int8 or uint8 codes represent.
Tensor ClampTensor(const Tensor& values, const ValueAffine& affine, DType dtype);

}  // namespace requant

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

/// Scale and zero point of the 8-bit values of an integer graph, by name: read from the operator
/// that produces each, for what tables make from those that read it, and carried through passive
/// operators. Values without a constant per-tensor scale are left out.
std::map<std::string, ValueAffine> FindAffineValues(const Graph& graph);

Tensor DequantizeTensor(const Tensor& quantized, const ValueAffine& affine);
/// Saturating, half to even; dtype int8 or uint8.
Tensor QuantizeTensor(const Tensor& values, const ValueAffine& affine, DType dtype);
/// float32 values within what the codes of int8 or uint8 stand for.
Tensor ClampTensor(const Tensor& values, const ValueAffine& affine, DType dtype);

}  // namespace requant

#pragma once
// com.microsoft::MatMulNBits: weights of few bits, in blocks along k that share a scale.
#include <cstdint>

#include "ir/graph.h"

namespace requant {

/// B is [n, blocks, block * bits / 8] bytes, scales [n * blocks], zero points (optional) packed as
/// B or floats: ONNX Runtime docs/ContribOperators.md#com.microsoft.MatMulNBits.
struct PackedForm {
  int64_t k, n, bits, block;
  int64_t blocks() const { return (k + block - 1) / block; }
};
/// The form in the attributes of MatMulNBits or UnpackBits; throws for forms that do not exist.
PackedForm PackedFormOf(const AttributeMap& attributes);
/// Whether the kernels can multiply with these weights as they are packed, bias aside: 4 bits,
/// constant, blocks a power of two from 16 on, zero points packed or left out. UnpackBits turns all
/// others into floats. Throws when sizes do not fit.
bool IsPackedProduct(const Node& node);

}  // namespace requant

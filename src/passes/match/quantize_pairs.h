// Helpers that the rewrites of QuantizeLinear and DequantizeLinear share.
#pragma once

#include "ir/graph.h"

namespace requant {

/// Whether the outputs of an operator have only values of its first input, for 8 bits and floats
/// alike.
bool MovesValues(const Graph& graph, const Node& node);

/// Whether a node is a QuantizeLinear or DequantizeLinear of ONNX between float32 and 8 bits with
/// one constant scale and zero point (given, or zero of uint8).
bool IsScalarPair(const Node& node);

/// Before: QuantizeLinear(DequantizeLinear(q, s, z), s, z)            After: q
/// Before: DequantizeLinear(QuantizeLinear(M(DequantizeLinear(q, s, z)), s, z), s, z)
/// After:  M(DequantizeLinear(q, s, z))        for any operators M that only move values
/// Conditions: 8 bits, one constant s and z, the same everywhere; s no extreme number.
///   (q - z) * s / s is off by 2^-23 of at most 255: rounding gives q again.
bool DropRequantization(Graph& graph, Node* node);

}  // namespace requant

#pragma once

#include <string>

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/lower/lowering.h"

namespace requant {

/// Whether a grid of the operator is one that files cannot say: more than 16 bits (8 for weights),
/// small floats, scales per channel of activations, other roundings.
bool HasExoticGrid(const Node& node, const QuantizationRecord& record);

/// Marks the quantized operators that no integer operator computes on their grids. Call it after
/// joining.
void MarkSimulated(const Graph& graph, QuantizationRecord& record);

/// Limits integers to the codes of a format that is narrower than its type, by operators that ONNX
/// Runtime has: its Clip knows bytes and int32, but no 16 bits.
Value* LimitInFile(Graph& graph, const std::string& name, Value* integers, const Format& format);

}  // namespace requant

// Converts files that express quantization by integer operators to Q/DQ pairs, which FromQdq reads,
// and back.
#pragma once

#include <string_view>

#include "ir/graph.h"

namespace requant {

/// Converts QOperator to Q/DQ (spell_pairs.cpp), or with `only` just the operators of one type and
/// the Clips behind them. Returns whether there was anything to convert. Throws kUnsupported,
/// naming the node, for dynamic scales and for an operator on integers of unknown scale.
bool SpellPairs(Graph& graph, std::string_view only = {});

/// Converts back where a file of integer operators has pairs as well: ConvTranspose, which has no
/// integer form in ONNX, becomes ai.requant::QLinearConvTranspose (join_pairs.cpp). Returns whether
/// there was any.
bool JoinPairs(Graph& graph);

}  // namespace requant

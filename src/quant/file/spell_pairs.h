// Files that say their quantization by integer operators, as Q/DQ pairs, which FromQdq reads, and
// back.
#pragma once

#include <string_view>

#include "ir/graph.h"

namespace requant {

/// QOperator -> Q/DQ (spell_pairs.cpp), or only operators of one type and the Clips behind them.
/// Returns whether there was anything to spell. Throws kUnsupported, naming the node, for computed
/// scales and for an operator on integers of unknown scale.
bool SpellPairs(Graph& graph, std::string_view only = {});

/// The way back where a file of integer operators has pairs as well: ConvTranspose, of which ONNX
/// has no integer form, becomes ai.requant::QLinearConvTranspose (join_pairs.cpp). Returns whether
/// there was any.
bool JoinPairs(Graph& graph);

}  // namespace requant

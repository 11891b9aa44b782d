// Metadata of our own QONNX and Q/DQ files, and how QONNX's nodes are rewritten.
#pragma once

#include "ir/graph.h"

namespace requant {

/// The metadata key under which a file lists the codes that its parameters' bytes use: a line "name
/// low high" for each, by the name of the dequantized parameter. Codes -1 and 1 without 0 are "1
/// -1".
inline constexpr const char* kCodesKey = "requant.codes";
/// The metadata key under which a file of ours names the form of its grids where that is not the
/// usual one: "qonnx".
inline constexpr const char* kFormKey = "requant.form";

/// Turns a QONNX export of ours into Q/DQ nodes (qonnx_pairs.cpp). Returns false and does nothing
/// for other graphs.
bool SpellQdq(Graph& graph);

/// Turns products of quantized values by quantized constants into products of their codes
/// (qonnx_integers.cpp). Returns whether there were any.
bool RewriteToIntegers(Graph& graph);

}  // namespace requant

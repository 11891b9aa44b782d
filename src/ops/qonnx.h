// What our own QONNX files and Q/DQ files say beside their nodes.
#pragma once

#include "ir/graph.h"

namespace requant {

/// Files tell the codes that the bytes of their parameters use in this entry of the metadata: a
/// line "name low high" for each, by the name of the dequantized parameter.
inline constexpr const char* kCodesKey = "requant.codes";
/// In what form a file of ours says its grids, where that is not the usual one: "qonnx".
inline constexpr const char* kFormKey = "requant.form";

/// qonnx_pairs.cpp: a QONNX export of ours with Q/DQ nodes instead. False, and nothing done, for
/// graphs of others.
bool SpellQdq(Graph& graph);

}  // namespace requant

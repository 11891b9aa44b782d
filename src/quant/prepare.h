// What the quantizer wants of a float graph before it looks at it.
#pragma once

#include "ir/graph.h"
#include "quant/record.h"

namespace requant {

/// Quantization per channel needs opset 13 (QuantizeLinear-13, DequantizeLinear-13), and 8-bit
/// Clip, MaxPool and Pad need 11 to 13: rewrites every operator whose form changed on the way into
/// its opset 13 form, in the bodies of control flow too. Types of 4 bits and blocks need opset 21,
/// those of 2 bits 25. Does nothing for a newer graph. Throws kUnsupported naming the node when a
/// form cannot be translated (Scan of opset 8).
void RaiseOpset(Graph& graph, int wanted = 13);

using RaiseFunction = void (*)(Graph& graph, int wanted);
/// RaiseOpset, for the main module: it is among the rarer operators (bindings/README.md).
extern const RaiseFunction kRaiseOpset;

/// Clone, RaiseOpset, types inferred.
Graph PrepareFloatGraph(const Graph& graph);

/// Forms that have no integer spelling get one: Gemm's alpha and beta go into its constants,
/// GlobalMaxPool becomes MaxPool where the sizes are known, Dropout and Identity disappear where
/// nothing else depends on them, or are Identity. Not for files whose integers are known already.
void NormalizeForms(Graph& graph);

/// Infers every node in order and fills in what the values do not know yet.
void RefreshTypes(Graph& graph);

}  // namespace requant

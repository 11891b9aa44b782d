// Brings float graphs into the form that the quantizer needs.
#pragma once

#include "base/late_function.h"
#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

/// Rewrites every operator whose form has changed into its opset 13 form, in the bodies of control
/// flow, too: quantization per channel needs opset 13 (QuantizeLinear-13, DequantizeLinear-13), and
/// 8-bit Clip, MaxPool and Pad need 11 to 13. Types of 4 bits and blocks need opset 21, those of 2
/// bits 25. Does nothing for a newer graph. Throws kUnsupported, naming the node, when a form
/// cannot be translated (Scan of opset 8).
void RaiseOpset(Graph& graph, int wanted = 13);
extern const LateFunction<decltype(RaiseOpset)> kRaiseOpset;

/// Gives operators without an integer form one: Gemm's alpha and beta go into its constants,
/// GlobalMaxPool becomes MaxPool where the sizes are known, Dropout and Identity disappear where
/// nothing else depends on them, or become Identity. Not for files whose integers are known
/// already.
void NormalizeForms(Graph& graph);

/// Infers every node in order and completes the types of values.
void RefreshTypes(Graph& graph);

}  // namespace requant

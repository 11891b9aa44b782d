// Turns the quantizer's decisions into integer operators.
#pragma once

#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

struct LowerOptions {
  /// true: elementwise functions become ai.requant::Lut. false: only operators of ONNX Runtime are
  /// used, and functions run in float between DequantizeLinear and QuantizeLinear.
  bool use_lut = true;
};

/// Makes the integer graph. Inputs and outputs stay float, nodes keep the names of the float nodes
/// that they compute, and the integer form of value v is named v_q. Throws kInvalidQuantization.
Graph LowerToInteger(const QuantizedModel& model, const LowerOptions& options = {});

}  // namespace requant

// Turns the quantizer's decisions into integer operators.
#pragma once

#include "quant/stages.h"

namespace requant {

struct LowerOptions {
  /// true: elementwise functions become ai.requant::Lut. false: only operators of ONNX Runtime are
  /// used, and functions run in float between DequantizeLinear and QuantizeLinear.
  bool use_lut = true;
};

/// Makes the integer model. Throws kInvalidQuantization.
IntegerModel LowerToInteger(const QuantizedModel& model, const LowerOptions& options = {});

}  // namespace requant

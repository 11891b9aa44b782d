// Turns the quantizer's decisions into integer operators.
#pragma once

#include "quant/stages.h"

namespace requant {

class Lowering;

struct LowerOptions {
  /// true: elementwise functions become ai.requant::Lut. false: only operators of ONNX Runtime are
  /// used, and functions run in float between DequantizeLinear and QuantizeLinear.
  bool use_lut = true;
  /// Lowers operators with 16-bit codes, which ONNX Runtime has no integer operators for, to float
  /// operators between Q/DQ pairs (Lowering::LowerSimulated). Null: to those of ai.requant.
  void (*lower_wide)(Lowering&, const Node&, const OperatorQuantization&) = nullptr;
};

/// Makes the integer model. Throws kInvalidQuantization.
IntegerModel LowerToInteger(const QuantizedModel& model, const LowerOptions& options = {});

}  // namespace requant

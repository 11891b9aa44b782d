// The lowering of normalizations, which only the quantizer chooses: its code loads with the tools.
#pragma once

#include "quant/config/record.h"

namespace requant {

/// Lowers a quantized Softmax, LayerNormalization or RMSNormalization.
void LowerNormalization(Lowering& lowering, const Node& node, const OperatorQuantization& op);

}  // namespace requant

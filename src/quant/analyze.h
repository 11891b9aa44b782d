// What quantization costs where: errors of every operator alone and of all together, what values
// and weights look like, and how sensitive the network's outputs are to the width of every layer.
#pragma once

#include <memory>
#include <string>

#include "quant/recover/recovery.h"

namespace requant {

/// After recovery, before the biases become integers. Each Step() is one operator on one sample;
/// detail() is the JSON of docs/quantization.md ("Analysis").
std::unique_ptr<RecoveryJob> MakeAnalysis(const RecoveryContext& context);

}  // namespace requant

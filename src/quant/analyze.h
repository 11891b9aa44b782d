// Finds out what quantization costs where: errors of every operator alone and of all together,
// distributions of values and weights, and how sensitive the network's outputs are to the width of
// every layer.
#pragma once

#include <memory>
#include <string>

#include "quant/recover/recovery.h"

namespace requant {

/// Makes the job that analyzes, after recovery and before biases become integers. Each Step() is
/// one operator on one sample; detail() is the JSON of docs/quantization.md ("Analysis").
std::unique_ptr<RecoveryJob> MakeAnalysis(const RecoveryContext& context);

}  // namespace requant

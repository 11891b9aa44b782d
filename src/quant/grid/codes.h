// Which codes a grid may have.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "quant/config/tensor_quantization_config.h"

namespace requant {

/// Why a combination is impossible, the field that says it, and what would be possible.
struct Refusal {
  std::string what;
  const char* field;
  std::string hint;
};

/// Whether as many codes lie below 0 as above it, or one more, as symmetric codes do unless
/// quantMin and quantMax say otherwise.
bool IsBalanced(const TensorQuantizationConfig& config);

/// The type that stores codes of 1 to 32 bits.
DType CodeType(int bits, bool is_signed, bool weights);

/// nullopt when the config may have its codes quant_min..quant_max: at least two of those that its
/// bits have, signed or not as its dtype. Symmetric ones contain 0 and something above it.
/// Symmetric codes of weights, and those of the formula ppq, are as many below 0 as above it, or
/// one more. Those of the formula cambricon follow from the bits, and small floats have no codes.
std::optional<Refusal> WhyNoCodes(const TensorQuantizationConfig& config, bool weights);

/// nullopt when the config may have its scales and zero points: as many of one as of the other, one
/// unless it is per channel; positive and finite scales, powers of two where the policy says so;
/// zero points among the codes, 0 for symmetric ones. (A zero point of 1 of signs is their
/// threshold.)
std::optional<Refusal> WhyNoScales(const TensorQuantizationConfig& config);

}  // namespace requant

// How a tensor is quantized, as a bitmap whose vocabulary follows PPQ's QuantizationPolicy
// (ppq/core/quant.py). Not every combination has a meaning: CheckPolicy names contradictions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "numeric/rounding.h"

namespace requant {

using QuantizationPolicy = uint32_t;

inline constexpr QuantizationPolicy kPerTensor = 1;
inline constexpr QuantizationPolicy kPerChannel = 2;
inline constexpr QuantizationPolicy kLinear = 4;
inline constexpr QuantizationPolicy kExponential = 8;
inline constexpr QuantizationPolicy kSymmetrical = 16;
inline constexpr QuantizationPolicy kAsymmetrical = 32;
inline constexpr QuantizationPolicy kPowerOf2 = 64;

/// The policy as text, such as "PER_CHANNEL|LINEAR|SYMMETRICAL".
std::string PolicyToString(QuantizationPolicy policy);
/// Throws kInvalidQuantization, naming the bits that are missing, unknown or exclude each other:
/// exactly one of PER_TENSOR / PER_CHANNEL, of LINEAR / EXPONENTIAL and of SYMMETRICAL /
/// ASYMMETRICAL; EXPONENTIAL excludes ASYMMETRICAL and needs no POWER_OF_2; PER_CHANNEL |
/// ASYMMETRICAL has no form in QLinearConv that runtimes agree on.
void CheckPolicy(QuantizationPolicy policy, std::string_view where = {});

}  // namespace requant

#pragma once
// Weights as evenly spaced levels. Hosted C++.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/conv/table.h"

namespace requant::conv {

/// w = offset + scale * u, u of `planes` bits. A plane of {0, 1} is offset 0 and scale 1, one of
/// {-1, 1} is offset -1 and scale 2, so that bipolar operands need no arithmetic of their own.
struct Levels {
  int32_t offset, scale, planes;
};

/// Nothing when there are more than `most` different weights, or when u needs more than 8 bits.
/// Stops where that is clear, which 8-bit weights make it soon.
std::optional<Levels> LevelsOf(const ConvQ8Weights& weights, size_t most);

}  // namespace requant::conv

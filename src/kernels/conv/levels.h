#pragma once
// Finds out whether weights are evenly spaced levels. Hosted C++.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/conv/table.h"

namespace requant::conv {

/// w = offset + scale * u, u of `planes` bits. Weights {0, 1} have offset 0 and scale 1, weights
/// {-1, 1} offset -1 and scale 2, so bipolar operands need no arithmetic of their own.
struct Levels {
  int32_t offset, scale, planes;
  size_t count;  ///< of the levels that weights have
};

/// The levels of `weights`; nullopt when there are more than `most` different weights, or when u
/// needs more than 8 bits. Stops as soon as that is clear, which is early for 8-bit weights.
std::optional<Levels> LevelsOf(const ConvQ8Weights& weights, size_t most);

}  // namespace requant::conv

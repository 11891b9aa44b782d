#pragma once

#include <cstddef>
#include <vector>

namespace requant {

/// Memory in use from one moment to another, both inclusive.
struct Lifetime {
  size_t bytes;
  int first, last;
};

struct Placement {
  size_t bytes = 0;             ///< the end of the highest one
  std::vector<size_t> offsets;  ///< multiples of the alignment
};

/// The largest sum of sizes in use at any moment of [0, moments), each rounded up to the alignment:
/// no placement needs less. If `used` is given, it receives the sum at every moment.
size_t PeakBytes(const std::vector<Lifetime>& lifetimes, int moments, size_t alignment,
                 std::vector<size_t>* used = nullptr);

constexpr int kMostPlacements = 100;

/// Chooses offsets such that lifetimes that share a moment never overlap. Looks for better ones, at
/// most `tries` times, while the placement needs more than `lower_bound`. Throws kOutOfMemory where
/// sizes overflow.
Placement PlaceLifetimes(const std::vector<Lifetime>& lifetimes, size_t alignment,
                         size_t lower_bound, int tries = kMostPlacements);

}  // namespace requant

#pragma once

#include <cstddef>
#include <vector>

namespace requant {

/// Memory that is in use from one moment to another, both inclusive.
struct Lifetime {
  size_t bytes;
  int first, last;
};

struct Placement {
  size_t bytes = 0;             ///< where the last one ends
  std::vector<size_t> offsets;  ///< multiples of the alignment
};

/// The most that is in use at any moment of [0, moments), each size rounded up: no placement needs
/// less. `used`, if given, is filled with that of every moment.
size_t PeakBytes(const std::vector<Lifetime>& lifetimes, int moments, size_t alignment,
                 std::vector<size_t>* used = nullptr);

/// Offsets such that what is in use at the same time never overlaps; looks for better ones as long
/// as more than `lower_bound` is needed. Throws kOutOfMemory where sizes overflow.
Placement PlaceLifetimes(const std::vector<Lifetime>& lifetimes, size_t alignment,
                         size_t lower_bound);

}  // namespace requant

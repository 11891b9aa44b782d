// One sort for everything that is ordered by an index.
#pragma once

#include <cstddef>
#include <vector>

namespace requant {

/// Stable. `less(self, a, b)`: must a come before b?
void StableSortBy(std::vector<size_t>& order, bool (*less)(const void* self, size_t a, size_t b),
                  const void* self);

/// std::stable_sort, whose code is compiled once (3 kB for every kind of comparison otherwise).
template <typename Less>
void StableSort(std::vector<size_t>& order, const Less& less) {
  StableSortBy(
      order,
      [](const void* self, size_t a, size_t b) { return (*static_cast<const Less*>(self))(a, b); },
      &less);
}

}  // namespace requant

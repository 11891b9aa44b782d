// One sort for all lists that are ordered by an index.
#pragma once

#include <cstddef>
#include <vector>

namespace requant {

/// Sorts stably. `less(self, a, b)` says whether a must come before b.
void StableSortBy(std::vector<size_t>& order, bool (*less)(const void* self, size_t a, size_t b),
                  const void* self);

/// Sorts as std::stable_sort does, but its code is compiled once (each comparison would add 3 kB).
template <typename Less>
void StableSort(std::vector<size_t>& order, const Less& less) {
  StableSortBy(
      order,
      [](const void* self, size_t a, size_t b) { return (*static_cast<const Less*>(self))(a, b); },
      &less);
}

}  // namespace requant

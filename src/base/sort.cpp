#include "base/sort.h"

#include <algorithm>

namespace requant {

void StableSortBy(std::vector<size_t>& order, bool (*less)(const void* self, size_t a, size_t b),
                  const void* self) {
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return less(self, a, b); });
}

}  // namespace requant

// Enumerations whose values have names.
#pragma once

#include <cstddef>
#include <string_view>

namespace requant {

/// Sets `*out` to the enumerator at the place that `name` has in `names`, which has the order of
/// the enumeration, from 0. Returns false for a name that is not there.
template <typename Enum, size_t kCount>
bool ParseName(std::string_view name, const char* const (&names)[kCount], Enum* out) {
  for (size_t i = 0; i < kCount; ++i) {
    if (name != names[i]) continue;
    *out = static_cast<Enum>(i);
    return true;
  }
  return false;
}

}  // namespace requant

#pragma once
// Freestanding.
#include <stdint.h>

namespace requant {

/// The 32-bit linear congruential generator of Numerical Recipes: the same numbers on every
/// machine. The high bits are the random ones.
struct Lcg {
  uint32_t state;

  constexpr uint32_t Next() { return state = state * 1664525u + 1013904223u; }
};

}  // namespace requant

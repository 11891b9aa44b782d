#pragma once
// The pseudo-random bits by which elements stay off a grid. Freestanding.
#include <stdint.h>

namespace requant::gradient {

/// A pseudo-random bit for each element, in the highest bit; it depends on nothing but `mix` and
/// the index of the element.
inline uint32_t Drawn(uint32_t mix, uint32_t i) {
  uint32_t x = mix + i * 2654435761U;
  x ^= x >> 15;
  return x * 2246822519U;
}

}  // namespace requant::gradient

#pragma once
// Freestanding.
#include <stdint.h>

namespace requant {

/// The largest difference between two codes, or two weights, of few bits: there are at most sixteen
/// of them, so that they fit half a byte.
inline constexpr int32_t kFewBitsRange = 15;

}  // namespace requant

#pragma once
// Loops of Cast between the types that networks use most.
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "base/late_function.h"
#include "tensor/dtype.h"

namespace requant {

/// A number as Cast converts it to an integer: floats are truncated, at the ends of the type beyond
/// them, and 0 for NaN; integers wrap.
template <typename To, typename From>
To Saturate(From value, To lowest, To highest) {
  if constexpr (std::is_floating_point_v<From>) {
    if (std::isnan(value)) return 0;
    // 2^64 and 2^63 are not below the limits as doubles, hence the >=.
    if (value <= static_cast<From>(lowest)) return lowest;
    if (value >= static_cast<From>(highest)) return highest;
  }
  return static_cast<To>(value);
}

/// Converts `count` numbers as CastTensor does. Returns false, and does nothing, for types other
/// than float32, int64, int32, int8, uint8 and bool.
bool CastNumbers(DType from_type, const void* from, DType to_type, void* to, int64_t count);
extern const LateFunction<decltype(CastNumbers)> kCastNumbers;

}  // namespace requant

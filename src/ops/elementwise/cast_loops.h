#pragma once
// Loops of Cast between the types that networks use most.
#include <cstdint>

#include "base/late_function.h"
#include "tensor/dtype.h"

namespace requant {

/// Converts `count` numbers as CastTensor does. Returns false, and does nothing, for types other
/// than float32, int64, int32, int8, uint8 and bool.
bool CastNumbers(DType from_type, const void* from, DType to_type, void* to, int64_t count);
extern const LateFunction<decltype(CastNumbers)> kCastNumbers;

}  // namespace requant

// Size arithmetic that cannot wrap, since hostile files choose the numbers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/error.h"

namespace requant {

/// Throws kOutOfMemory for a size that overflows.
[[noreturn]] void FailSize();

/// a * b. Throws kOutOfMemory when the product leaves size_t.
inline size_t CheckedMul(size_t a, size_t b) {
  size_t product;
  if (__builtin_mul_overflow(a, b, &product)) FailSize();
  return product;
}

/// a + b. Throws kOutOfMemory when the sum leaves size_t.
inline size_t CheckedAdd(size_t a, size_t b) {
  size_t sum;
  if (__builtin_add_overflow(a, b, &sum)) FailSize();
  return sum;
}

/// Signed forms for dimensions. Throw kInvalidModel when the result leaves int64_t.
inline int64_t CheckedMul64(int64_t a, int64_t b) {
  int64_t product;
  if (__builtin_mul_overflow(a, b, &product)) {
    Fail(ErrorCode::kInvalidModel, "a dimension computation overflows");
  }
  return product;
}
inline int64_t CheckedAdd64(int64_t a, int64_t b) {
  int64_t sum;
  if (__builtin_add_overflow(a, b, &sum)) {
    Fail(ErrorCode::kInvalidModel, "a dimension computation overflows");
  }
  return sum;
}

/// `value` rounded up to a multiple of `step` (a power of two). Throws kOutOfMemory on overflow.
inline size_t CheckedAlign(size_t value, size_t step) {
  return CheckedAdd(value, step - 1) & ~(step - 1);
}

}  // namespace requant

#pragma once
// What the rows of several tables need of the machine. Hosted C++.
#include "kernels/variant/kernel.h"

namespace requant {

/// Null where rq_dot8() is not 0, else the name of what is not there.
inline const char* MissingDot8() {
  static const bool has = rq_dot8() != 0;  // some fifty microseconds, and asked for every layer
  return has ? nullptr : "an i32x4.relaxed_dot_i8x16_i7x16_add_s that is exact for 8-bit operands";
}

}  // namespace requant

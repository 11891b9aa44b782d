#pragma once
// The features of the machine that rows of several tables require. Hosted C++.
#include "base/operators.h"
#include "kernels/variant/kernel.h"

namespace requant {

/// rq_dot8(), asked once: a call takes some fifty microseconds, and every layer asks.
inline int32_t Dot8Form() {
  static const int32_t form = rq_dot8();
  return form;
}
/// The least weight that this form of rq_dot8() multiplies exactly.
inline int32_t LeastDot8Weight(int32_t form) { return form == 2 ? -127 : -128; }

/// Null where rq_dot8() is not 0, else the name of the missing instruction.
inline const char* MissingDot8() {
  return Dot8Form() != 0
             ? nullptr
             : "an i32x4.relaxed_dot_i8x16_i7x16_add_s that is exact for 8-bit operands";
}

#if defined(__EMSCRIPTEN__)
/// The loader defines this function (web/engine/load_core.ts).
extern "C" __attribute__((import_module("low_bits"), import_name("rq_low_bits_loaded"))) int32_t
rq_low_bits_loaded();
#else
inline int32_t rq_low_bits_loaded() { return 1; }
#endif

/// `missing` of rows declared with RQ_LOW_BITS_KERNEL: null once their module and the operators,
/// which pack their weights, are loaded. A saved plan has packed weights and needs the former only.
inline const char* MissingLowBits() {
  const bool there = rq_low_bits_loaded() != 0 && OperatorsLoaded();
  return there ? nullptr : "the module of kernels for few bits";
}

/// `missing` of rows declared with RQ_LOW_BITS_KERNEL that also require rq_dot8().
inline const char* MissingLowBitsDot8() {
  const char* missing = MissingDot8();
  return missing != nullptr ? missing : MissingLowBits();
}

/// Whether a row packs weights for rq_dot8().
inline bool IsDot8(const char* (*missing)()) {
  return missing == MissingDot8 || missing == MissingLowBitsDot8;
}
inline bool IsLowBits(const char* (*missing)()) {
  return missing == MissingLowBits || missing == MissingLowBitsDot8;
}
/// Names what a row requires and no module loaded later can bring, else null.
inline const char* MissingForEver(const char* (*missing)()) {
  if (missing == nullptr || missing == MissingLowBits) return nullptr;
  return missing == MissingLowBitsDot8 ? MissingDot8() : missing();
}

}  // namespace requant

#pragma once
// What the rows of several tables need of the machine. Hosted C++.
#include "base/operators.h"
#include "kernels/variant/kernel.h"

namespace requant {

/// rq_dot8(), which takes some fifty microseconds and is asked for every layer.
inline int32_t Dot8Form() {
  static const int32_t form = rq_dot8();
  return form;
}
/// The least weight that is multiplied exactly in that form.
inline int32_t LeastDot8Weight(int32_t form) { return form == 2 ? -127 : -128; }

/// Null where rq_dot8() is not 0, else the name of what is not there.
inline const char* MissingDot8() {
  return Dot8Form() != 0
             ? nullptr
             : "an i32x4.relaxed_dot_i8x16_i7x16_add_s that is exact for 8-bit operands";
}

#if defined(__EMSCRIPTEN__)
/// Of the loader (web/load_core.ts).
extern "C" __attribute__((import_module("low_bits"), import_name("rq_low_bits_loaded"))) int32_t
rq_low_bits_loaded();
#else
inline int32_t rq_low_bits_loaded() { return 1; }
#endif

/// For the rows of RQ_LOW_BITS_KERNEL: null once their module is loaded, and what packs weights for
/// them, which a saved plan does without.
inline const char* MissingLowBits() {
  const bool there = rq_low_bits_loaded() != 0 && OperatorsLoaded();
  return there ? nullptr : "the module of kernels for few bits";
}

/// For those of them that want rq_dot8() as well.
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
/// What no module that is loaded later will bring.
inline const char* MissingForEver(const char* (*missing)()) {
  if (missing == nullptr || missing == MissingLowBits) return nullptr;
  return missing == MissingLowBitsDot8 ? MissingDot8() : missing();
}

}  // namespace requant

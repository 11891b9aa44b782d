#pragma once
// The kernels, for the list of all kernels, which is in the main module.

#include "base/late_function.h"
#include "gradient/kernel.h"

namespace requant::gradient {

#define ROW(number, run, Params) extern const LateFunction<decltype(run)> number##Late;
#include "gradient/kernels.inc"
#undef ROW

}  // namespace requant::gradient

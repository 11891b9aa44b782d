#pragma once
// The entry points of reference.cpp, which is part of the core; the Scalar* functions of pack.h
// pack their weights.
#include "kernels/dwconv/kernel.h"

namespace requant {

void rq_dwconv_f32_scalar(const DwConvF32Params* params);
void rq_dwconv_q8_scalar(const DwConvQ8Params* params);

}  // namespace requant

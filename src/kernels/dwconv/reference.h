#pragma once
// Entry points of reference.cpp: part of the core, packed by the Scalar* functions of pack.h.
#include "kernels/dwconv/kernel.h"

namespace requant {

void rq_dwconv_f32_scalar(const DwConvF32Params* params);
void rq_dwconv_q8_scalar(const DwConvQ8Params* params);

}  // namespace requant

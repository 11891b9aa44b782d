#pragma once
// Entry points of reference.cpp: part of the core, packed by the Scalar* functions of pack.h.
#include "kernels/conv/kernel.h"

namespace requant {

void rq_conv_f32_scalar(const ConvF32Params* params);
void rq_conv_q8_scalar(const ConvQ8Params* params);

}  // namespace requant

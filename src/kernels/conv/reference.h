#pragma once
// The entry points of reference.cpp, which is part of the core; the Scalar* functions of pack.h
// pack their weights.
#include "kernels/conv/kernel.h"

namespace requant {

void rq_conv_f32_scalar(const ConvF32Params* params);
void rq_conv_q8_scalar(const ConvQ8Params* params);

}  // namespace requant

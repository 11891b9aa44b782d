// 8-bit convolution by one instruction for 16 products, on machines that have it (dot8.h).
#include "kernels/conv/dot8/dot8.h"

#if defined(__wasm__) && !defined(REQUANT_RELAXED)
// rq_dot8() is 0 in this variant, so no plan has these kernels.
void rq_conv_q8_dot8(const requant::ConvQ8Params*) { __builtin_trap(); }
void rq_conv_q8_dot8_lines(const requant::ConvQ8Params*) { __builtin_trap(); }
#else
void rq_conv_q8_dot8(const requant::ConvQ8Params* p) {
  requant::conv::ConvDot8<requant::simd::Dot8>(p);
}
void rq_conv_q8_dot8_lines(const requant::ConvQ8Params* p) {
  requant::conv::ConvDot8Lines<requant::simd::Dot8>(p);
}
#endif

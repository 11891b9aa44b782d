// 8-bit convolution by one instruction for 16 products, where this machine has it: see dot8.h.
#include "kernels/conv/dot8.h"

void rq_conv_q8_dot8(const requant::ConvQ8Params* p) {
#if defined(__wasm__) && !defined(REQUANT_RELAXED)
  (void)p;
  __builtin_trap();  // rq_dot8() is 0: no plan has this kernel
#else
  requant::conv::ConvDot8<requant::simd::Dot8>(p);
#endif
}

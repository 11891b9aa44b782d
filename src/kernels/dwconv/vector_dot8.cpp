// 8-bit depthwise convolution by exact dot products of bytes, on machines that have them (dot8.h).
#include "kernels/dwconv/dot8.h"

void rq_dwconv_q8_dot8(const requant::DwConvQ8Params* p) {
#if defined(__wasm__) && !defined(REQUANT_RELAXED)
  (void)p;
  __builtin_trap();  // rq_dot8() is 0 in this variant, so no plan has this kernel
#else
  requant::dwconv::DwConvDot8<requant::simd::Dot8>(p);
#endif
}

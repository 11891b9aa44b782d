#include "kernels/variant/kernel.h"
#include "kernels/variant/probe_dot8.h"

extern "C" int32_t rq_variant() {
#ifdef REQUANT_RELAXED
  return 1;
#else
  return 0;
#endif
}

extern "C" int32_t rq_dot8() {
#if defined(__wasm__) && !defined(REQUANT_RELAXED)
  return 0;
#else
  return requant::ProbeDot8<requant::simd::Dot8>();
#endif
}

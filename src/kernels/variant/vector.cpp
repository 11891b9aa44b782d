#include "kernels/variant/kernel.h"

extern "C" int32_t rq_variant() {
#ifdef REQUANT_RELAXED
  return 1;
#else
  return 0;
#endif
}

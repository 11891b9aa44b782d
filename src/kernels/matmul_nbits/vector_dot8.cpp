#include "kernels/matmul_nbits/q8.h"

void rq_matmul_nbits_dot8(const requant::MatMulNBitsParams* p) {
  requant::nbits::Multiply<requant::nbits::Quads>(p);
}

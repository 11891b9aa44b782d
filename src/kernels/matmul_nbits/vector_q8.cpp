#include "kernels/matmul_nbits/q8.h"

void rq_matmul_nbits_q8(const requant::MatMulNBitsParams* p) {
  requant::nbits::Multiply<requant::nbits::Pairs>(p);
}

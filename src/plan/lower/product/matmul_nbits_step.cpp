// The step of MatMulNBits, apart from its lowering (matmul_nbits.cpp), since saved plans are read
// before the extended operators are loaded.
#include "plan/lower/product/matmul_nbits.h"

namespace requant {

RQ_STEP(MatMulNBits, MatMulNBitsStep)

}  // namespace requant

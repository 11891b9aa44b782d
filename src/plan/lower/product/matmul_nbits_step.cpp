// The step of MatMulNBits, apart from its lowering (matmul_nbits.cpp), since saved plans are read
// before the extended operators are loaded.
#include "plan/lower/product/matmul_nbits.h"

namespace requant {

std::unique_ptr<Step> NewMatMulNBitsStep(StepKind kind) {
  if (kind == StepKind::kMatMulNBits) return std::make_unique<MatMulNBitsStep>();
  return nullptr;
}

}  // namespace requant

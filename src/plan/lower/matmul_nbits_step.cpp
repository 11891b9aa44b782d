// Apart from what plans it (matmul_nbits.cpp): saved plans are read before those operators are
// loaded.
#include "plan/lower/matmul_nbits.h"

namespace requant {

std::unique_ptr<Step> NewMatMulNBitsStep(StepKind kind) {
  if (kind == StepKind::kMatMulNBits) return std::make_unique<MatMulNBitsStep>();
  return nullptr;
}

}  // namespace requant

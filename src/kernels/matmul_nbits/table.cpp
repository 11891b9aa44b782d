#include "kernels/matmul_nbits/table.h"

#include "kernels/matmul_nbits/pack.h"
#include "kernels/variant/missing.h"

namespace requant {
namespace {

constexpr MatMulNBitsKernel kRows[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/matmul_nbits/matmul_nbits.inc"
#undef ROW
};

}  // namespace

std::span<const MatMulNBitsKernel> MatMulNBitsKernels() { return kRows; }

}  // namespace requant

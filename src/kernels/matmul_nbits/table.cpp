#include "kernels/matmul_nbits/table.h"

#include "kernels/matmul_nbits/pack.h"
#include "kernels/variant/missing.h"

namespace requant {
namespace {

constexpr MatMulNBitsKernel kRows[] = {
    {"matmul_nbits_f32_scalar", "scalar", nullptr, false, nbits::PackedSize, nbits::Pack,
     nbits::NoWorkspace, MatMulNBitsF32Reference},
    {"matmul_nbits_f32_vector", "simd128", MissingLowBits, false, nbits::PackedSize, nbits::Pack,
     nbits::F32Workspace, rq_matmul_nbits_f32},
    {"matmul_nbits_q8_scalar", "scalar", nullptr, true, nbits::PackedSize, nbits::Pack,
     nbits::Q8ReferenceWorkspace, MatMulNBitsQ8Reference},
    {"matmul_nbits_q8_vector", "simd128", MissingLowBits, true, nbits::PackedSize, nbits::Pack,
     nbits::Q8Workspace, rq_matmul_nbits_q8},
    {"matmul_nbits_q8_dot8", "relaxed", MissingLowBitsDot8, true, nbits::PackedSize, nbits::Pack,
     nbits::Q8Workspace, rq_matmul_nbits_dot8},
};

}  // namespace

std::span<const MatMulNBitsKernel> MatMulNBitsKernels() { return kRows; }

}  // namespace requant

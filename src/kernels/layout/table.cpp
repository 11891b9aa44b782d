#include "kernels/layout/table.h"

namespace requant {
namespace {

constexpr TransposeKernel kTranspose[] = {
    {"transpose_x8_scalar", 1, "scalar", TransposeX8Reference},
    {"transpose_x8_simd128", 1, "simd128", rq_transpose_x8},
    {"transpose_x32_scalar", 4, "scalar", TransposeX32Reference},
    {"transpose_x32_simd128", 4, "simd128", rq_transpose_x32},
};
constexpr CopyRowsKernel kCopyRows[] = {
    {"copy_rows_scalar", "scalar", CopyRowsReference},
    {"copy_rows_simd128", "simd128", rq_copy_rows},
};

}  // namespace

std::span<const TransposeKernel> TransposeKernels() { return kTranspose; }
std::span<const CopyRowsKernel> CopyRowsKernels() { return kCopyRows; }

}  // namespace requant

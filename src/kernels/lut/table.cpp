#include "kernels/lut/table.h"

namespace requant {
namespace {

constexpr LutKernel kLut[] = {
    {"lut_scalar", "scalar", LutReference},
    {"lut_unrolled", "simd128", rq_lut},
};
constexpr LutF32Kernel kLutF32[] = {
    {"lut_f32_scalar", "scalar", LutF32Reference},
    {"lut_f32_unrolled", "simd128", rq_lut_f32},
};

}  // namespace

std::span<const LutKernel> LutKernels() { return kLut; }
std::span<const LutF32Kernel> LutF32Kernels() { return kLutF32; }

}  // namespace requant

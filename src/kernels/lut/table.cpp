#include "kernels/lut/table.h"

namespace requant {
namespace {

constexpr LutKernel kLut[] = {
    {"lut_scalar", "scalar", LutReference},
    {"lut_unrolled", "simd128", rq_lut},
};

}  // namespace

std::span<const LutKernel> LutKernels() { return kLut; }

}  // namespace requant

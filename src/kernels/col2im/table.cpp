#include "kernels/col2im/table.h"

namespace requant {
namespace {

constexpr Col2ImF32Kernel kCol2ImF32[] = {
    {"col2im_f32_scalar", "scalar", Col2ImF32Reference},
    {"col2im_f32_simd128", "simd128", rq_col2im_f32},
};

}  // namespace

std::span<const Col2ImF32Kernel> Col2ImF32Kernels() { return kCol2ImF32; }

}  // namespace requant

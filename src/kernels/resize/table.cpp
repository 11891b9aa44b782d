#include "kernels/resize/table.h"

namespace requant {
namespace {

constexpr ResizeLinearF32Kernel kResizeLinearF32[] = {
    {"resize_linear_f32_scalar", "scalar", ResizeLinearF32Reference},
    {"resize_linear_f32_simd128", "simd128", rq_resize_linear_f32},
};

}  // namespace

std::span<const ResizeLinearF32Kernel> ResizeLinearF32Kernels() { return kResizeLinearF32; }

}  // namespace requant

#include "kernels/resize/table.h"

namespace requant {
namespace {

constexpr ResizeLinearF32Kernel kResizeLinearF32[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/resize/resize_linear_f32.inc"
#undef ROW
};

}  // namespace

std::span<const ResizeLinearF32Kernel> ResizeLinearF32Kernels() { return kResizeLinearF32; }

}  // namespace requant

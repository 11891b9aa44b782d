#include "kernels/softmax/table.h"

namespace requant {
namespace {

constexpr SoftmaxF32Kernel kSoftmaxF32[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/softmax/softmax_f32.inc"
#undef ROW
};

}  // namespace

std::span<const SoftmaxF32Kernel> SoftmaxF32Kernels() { return kSoftmaxF32; }

}  // namespace requant

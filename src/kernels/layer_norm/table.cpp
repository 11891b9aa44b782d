#include "kernels/layer_norm/table.h"

namespace requant {
namespace {

constexpr LayerNormF32Kernel kLayerNormF32[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/layer_norm/layer_norm_f32.inc"
#undef ROW
};

}  // namespace

std::span<const LayerNormF32Kernel> LayerNormF32Kernels() { return kLayerNormF32; }

}  // namespace requant

#include "kernels/layer_norm/table.h"

namespace requant {
namespace {

constexpr LayerNormF32Kernel kLayerNormF32[] = {
    {"layer_norm_f32_scalar", "scalar", LayerNormF32Reference},
    {"layer_norm_f32_simd128", "simd128", rq_layer_norm_f32},
};

}  // namespace

std::span<const LayerNormF32Kernel> LayerNormF32Kernels() { return kLayerNormF32; }

}  // namespace requant

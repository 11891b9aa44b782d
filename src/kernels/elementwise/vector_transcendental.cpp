// Sigmoid, tanh, erf and Gelu, four elements at a time, by the formulas of
// kernels/transcendental.h.
#include "kernels/elementwise/map_simd.h"
#include "kernels/lanes_simd.h"
#include "kernels/transcendental.h"

using requant::UnaryF32Params;
using requant::VectorLanes;
namespace transcendental = requant::transcendental;

void rq_sigmoid_f32(const UnaryF32Params* p) {
  requant::MapLanes(p, transcendental::Sigmoid<VectorLanes>);
}
void rq_tanh_f32(const UnaryF32Params* p) {
  requant::MapLanes(p, transcendental::Tanh<VectorLanes>);
}
void rq_erf_f32(const UnaryF32Params* p) { requant::MapLanes(p, transcendental::Erf<VectorLanes>); }
void rq_gelu_f32(const UnaryF32Params* p) {
  requant::MapLanes(p, transcendental::Gelu<VectorLanes>);
}
void rq_gelu_tanh_f32(const UnaryF32Params* p) {
  requant::MapLanes(p, transcendental::GeluTanh<VectorLanes>);
}
void rq_quick_gelu_f32(const UnaryF32Params* p) {
  const v128_t alpha = wasm_f32x4_splat(p->alpha);
  requant::MapLanes(p, [alpha](const VectorLanes& l, v128_t x) {
    return wasm_f32x4_mul(x, transcendental::Sigmoid(l, wasm_f32x4_mul(alpha, x)));
  });
}

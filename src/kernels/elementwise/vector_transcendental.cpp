// Sigmoid and its kin on four elements at a time, by the formulas of kernels/transcendental.h.
#include "kernels/elementwise/kernel.h"
#include "kernels/lanes_simd.h"
#include "kernels/transcendental.h"

namespace requant {
namespace {

struct Sigmoid {
  RQ_INLINE v128_t Run(v128_t x) { return transcendental::Sigmoid<VectorLanes>(x); }
};
struct Tanh {
  RQ_INLINE v128_t Run(v128_t x) { return transcendental::Tanh<VectorLanes>(x); }
};
struct Erf {
  RQ_INLINE v128_t Run(v128_t x) { return transcendental::Erf<VectorLanes>(x); }
};
struct Gelu {
  RQ_INLINE v128_t Run(v128_t x) { return transcendental::Gelu<VectorLanes>(x); }
};
struct GeluTanh {
  RQ_INLINE v128_t Run(v128_t x) { return transcendental::GeluTanh<VectorLanes>(x); }
};

template <typename Function>
RQ_INLINE void Map(const UnaryF32Params* p) {
  for (size_t i = 0; i < p->n; i += 4) {
    const int32_t left = p->n - i < 4 ? static_cast<int32_t>(p->n - i) : 4;
    simd::StorePartialF32(p->out + i, Function::Run(simd::LoadPartialF32(p->in + i, left)), left);
  }
}

}  // namespace
}  // namespace requant

using requant::UnaryF32Params;

void rq_sigmoid_f32(const UnaryF32Params* p) { requant::Map<requant::Sigmoid>(p); }
void rq_tanh_f32(const UnaryF32Params* p) { requant::Map<requant::Tanh>(p); }
void rq_erf_f32(const UnaryF32Params* p) { requant::Map<requant::Erf>(p); }
void rq_gelu_f32(const UnaryF32Params* p) { requant::Map<requant::Gelu>(p); }
void rq_gelu_tanh_f32(const UnaryF32Params* p) { requant::Map<requant::GeluTanh>(p); }
void rq_quick_gelu_f32(const UnaryF32Params* p) {
  using requant::VectorLanes;
  const v128_t alpha = wasm_f32x4_splat(p->alpha);
  for (size_t i = 0; i < p->n; i += 4) {
    const int32_t left = p->n - i < 4 ? static_cast<int32_t>(p->n - i) : 4;
    const v128_t x = requant::simd::LoadPartialF32(p->in + i, left);
    const v128_t gate = requant::transcendental::Sigmoid<VectorLanes>(wasm_f32x4_mul(alpha, x));
    requant::simd::StorePartialF32(p->out + i, wasm_f32x4_mul(x, gate), left);
  }
}

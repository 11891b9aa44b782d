// The fast approximations of kernels/fast_math.h on four elements at a time.
#include "kernels/elementwise/kernel.h"
#include "kernels/fast_math.h"
#include "kernels/lanes_simd.h"

namespace requant {
namespace {

struct FastExp {
  RQ_INLINE v128_t Run(v128_t x) { return fast_math::Exp<VectorLanes>(x); }
};
struct FastTanh {
  RQ_INLINE v128_t Run(v128_t x) { return fast_math::Tanh<VectorLanes>(x); }
};
struct FastSigmoid {
  RQ_INLINE v128_t Run(v128_t x) { return fast_math::Sigmoid<VectorLanes>(x); }
};
struct FastErf {
  RQ_INLINE v128_t Run(v128_t x) { return fast_math::Erf<VectorLanes>(x); }
};
struct FastGelu {
  RQ_INLINE v128_t Run(v128_t x) { return fast_math::Gelu<VectorLanes>(x); }
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

void rq_fast_exp_f32(const UnaryF32Params* p) { requant::Map<requant::FastExp>(p); }
void rq_fast_tanh_f32(const UnaryF32Params* p) { requant::Map<requant::FastTanh>(p); }
void rq_fast_sigmoid_f32(const UnaryF32Params* p) { requant::Map<requant::FastSigmoid>(p); }
void rq_fast_erf_f32(const UnaryF32Params* p) { requant::Map<requant::FastErf>(p); }
void rq_fast_gelu_f32(const UnaryF32Params* p) { requant::Map<requant::FastGelu>(p); }

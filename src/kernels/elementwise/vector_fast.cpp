// The fast approximations of kernels/fast_math.h, four elements at a time.
#include "kernels/elementwise/map_simd.h"
#include "kernels/fast_math.h"
#include "kernels/lanes_simd.h"

using requant::UnaryF32Params;
using requant::VectorLanes;
namespace fast_math = requant::fast_math;

void rq_fast_exp_f32(const UnaryF32Params* p) { requant::MapLanes(p, fast_math::Exp<VectorLanes>); }
void rq_fast_tanh_f32(const UnaryF32Params* p) {
  requant::MapLanes(p, fast_math::Tanh<VectorLanes>);
}
void rq_fast_sigmoid_f32(const UnaryF32Params* p) {
  requant::MapLanes(p, fast_math::Sigmoid<VectorLanes>);
}
void rq_fast_erf_f32(const UnaryF32Params* p) { requant::MapLanes(p, fast_math::Erf<VectorLanes>); }
void rq_fast_gelu_f32(const UnaryF32Params* p) {
  requant::MapLanes(p, fast_math::Gelu<VectorLanes>);
}

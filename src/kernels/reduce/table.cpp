#include "kernels/reduce/table.h"

namespace requant {
namespace {

constexpr ReduceF32Kernel kReduceF32[] = {
    {"reduce_f32_scalar", "scalar", ReduceF32Reference},
    {"reduce_f32_simd128", "simd128", rq_reduce_f32},
};

}  // namespace

std::span<const ReduceF32Kernel> ReduceF32Kernels() { return kReduceF32; }

}  // namespace requant

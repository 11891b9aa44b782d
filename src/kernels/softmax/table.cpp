#include "kernels/softmax/table.h"

namespace requant {
namespace {

constexpr SoftmaxF32Kernel kSoftmaxF32[] = {
    {"softmax_f32_scalar", SoftmaxOp::kSoftmax, "scalar", SoftmaxF32Reference},
    {"softmax_f32_simd128", SoftmaxOp::kSoftmax, "simd128", rq_softmax_f32},
    {"fast_softmax_f32_scalar", SoftmaxOp::kFastSoftmax, "scalar", FastSoftmaxF32Reference},
    {"fast_softmax_f32_simd128", SoftmaxOp::kFastSoftmax, "simd128", rq_fast_softmax_f32},
    {"log_softmax_f32_scalar", SoftmaxOp::kLogSoftmax, "scalar", LogSoftmaxF32Reference},
    {"log_softmax_f32_simd128", SoftmaxOp::kLogSoftmax, "simd128", rq_log_softmax_f32},
};

}  // namespace

std::span<const SoftmaxF32Kernel> SoftmaxF32Kernels() { return kSoftmaxF32; }

}  // namespace requant

#include "kernels/conv/table.h"

#include "kernels/conv/pack.h"
#include "kernels/conv/reference.h"

namespace requant {
namespace {

bool SupportsAll(const ConvQ8Weights&, const ConvGeometry&) { return true; }

constexpr ConvF32Kernel kF32Kernels[] = {
    {"conv_f32_scalar", "scalar", conv::ScalarF32PackedSize, conv::ScalarF32Pack, conv::NoWorkspace,
     rq_conv_f32_scalar},
    {"conv_f32_vector", "simd128", conv::VectorF32PackedSize, conv::VectorF32Pack,
     conv::VectorF32Workspace, rq_conv_f32},
};

constexpr ConvQ8Kernel kQ8Kernels[] = {
    {"conv_q8_scalar", "scalar", SupportsAll, conv::ScalarQ8PackedSize, conv::ScalarQ8Pack,
     conv::NoWorkspace, rq_conv_q8_scalar},
    {"conv_q8_vector", "simd128", SupportsAll, conv::VectorQ8PackedSize, conv::VectorQ8Pack,
     conv::VectorQ8Workspace, rq_conv_q8},
    {"conv_q8_dot7", "relaxed", conv::Dot7Supports, conv::Dot7PackedSize, conv::Dot7Pack,
     conv::Dot7Workspace, rq_conv_q8_dot7},
    {"conv_q8_lines", "simd128", conv::LinesSupports, conv::LinesPackedSize, conv::LinesPack,
     conv::LinesWorkspace, rq_conv_q8_lines},
};

}  // namespace

std::span<const ConvF32Kernel> ConvF32Kernels() { return kF32Kernels; }
std::span<const ConvQ8Kernel> ConvQ8Kernels() { return kQ8Kernels; }

}  // namespace requant

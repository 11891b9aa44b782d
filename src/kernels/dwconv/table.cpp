#include "kernels/dwconv/table.h"

#include "kernels/dwconv/pack.h"
#include "kernels/dwconv/reference.h"
#include "kernels/variant/missing.h"

namespace requant {
namespace {

constexpr DwConvF32Kernel kF32Kernels[] = {
    {"dwconv_f32_scalar", "scalar", dwconv::ScalarF32PackedSize, dwconv::ScalarF32Pack,
     dwconv::NoWorkspace, rq_dwconv_f32_scalar},
    {"dwconv_f32_vector", "simd128", dwconv::VectorF32PackedSize, dwconv::VectorF32Pack,
     dwconv::VectorF32Workspace, rq_dwconv_f32},
};

bool SupportsAll(const DwConvQ8Weights&) { return true; }

constexpr DwConvQ8Kernel kQ8Kernels[] = {
    {"dwconv_q8_scalar", "scalar", nullptr, SupportsAll, dwconv::ScalarQ8PackedSize,
     dwconv::ScalarQ8Pack, dwconv::NoWorkspace, rq_dwconv_q8_scalar},
    {"dwconv_q8_vector", "simd128", nullptr, SupportsAll, dwconv::VectorQ8PackedSize,
     dwconv::VectorQ8Pack, dwconv::VectorQ8Workspace, rq_dwconv_q8},
    {"dwconv_q8_narrow", "relaxed", MissingLowBits, dwconv::NarrowSupports,
     dwconv::NarrowPackedSize, dwconv::NarrowPack, dwconv::NarrowWorkspace, rq_dwconv_q8_narrow},
    {"dwconv_q8_dot8", "relaxed", MissingDot8, dwconv::Dot8Supports, dwconv::Dot8PackedSize,
     dwconv::Dot8Pack, dwconv::Dot8Workspace, rq_dwconv_q8_dot8},
};

}  // namespace

std::span<const DwConvF32Kernel> DwConvF32Kernels() { return kF32Kernels; }
std::span<const DwConvQ8Kernel> DwConvQ8Kernels() { return kQ8Kernels; }

}  // namespace requant

#include "kernels/dwconv/table.h"

#include "kernels/dwconv/pack.h"

#include "kernels/variant/missing.h"

namespace requant {
namespace {

constexpr DwConvF32Kernel kF32Kernels[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/dwconv/dwconv_f32.inc"
#undef ROW
};

bool SupportsAll(const DwConvQ8Weights&) { return true; }

constexpr DwConvQ8Kernel kQ8Kernels[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/dwconv/dwconv_q8.inc"
#undef ROW
};

}  // namespace

std::span<const DwConvF32Kernel> DwConvF32Kernels() { return kF32Kernels; }
std::span<const DwConvQ8Kernel> DwConvQ8Kernels() { return kQ8Kernels; }

}  // namespace requant

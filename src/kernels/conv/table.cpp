#include "kernels/conv/table.h"

#include "kernels/bitserial/pack.h"
#include "kernels/conv/pack.h"

#include "kernels/variant/missing.h"

namespace requant {
namespace {

bool Always(const ConvQ8Weights&, const ConvGeometry&) { return true; }
bool Never(const ConvQ8Weights&, const ConvGeometry&) { return false; }
bool AlwaysF32(const ConvGeometry&) { return true; }

constexpr ConvF32Kernel kF32Kernels[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/conv/conv_f32.inc"
#undef ROW
};

constexpr ConvQ8Kernel kQ8Kernels[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/conv/conv_q8.inc"
#undef ROW
};

}  // namespace

std::span<const ConvF32Kernel> ConvF32Kernels() { return kF32Kernels; }
std::span<const ConvQ8Kernel> ConvQ8Kernels() { return kQ8Kernels; }

}  // namespace requant

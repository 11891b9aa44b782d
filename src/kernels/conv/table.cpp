#include "kernels/conv/table.h"

#include "kernels/conv/pack.h"
#include "kernels/variant/missing.h"

namespace requant {

bool conv::Always(const ConvQ8Weights&, const ConvGeometry&) { return true; }
bool bitserial::Never(const ConvQ8Weights&, const ConvGeometry&) { return false; }

namespace {

bool AlwaysF32(const ConvGeometry&) { return true; }
bool NeverF32(const ConvGeometry&) { return false; }

constexpr ConvF32Kernel kF32Kernels[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/conv/conv_f32.inc"
#undef ROW
};

constexpr ConvQ8Kernel kQ8Kernels[] = {
#define ROW(linkage, run, name, isa, missing, space, supports, is_preferred, walk, packed_size, \
            pack_weights, workspace_size)                                                       \
  {name,                                                                                        \
   isa,                                                                                         \
   missing,                                                                                     \
   space::supports,                                                                             \
   space::is_preferred,                                                                         \
   walk,                                                                                        \
   space::packed_size,                                                                          \
   space::pack_weights,                                                                         \
   space::workspace_size,                                                                       \
   run},
#include "kernels/conv/conv_q8.inc"
#undef ROW
};

}  // namespace

std::span<const ConvF32Kernel> ConvF32Kernels() { return kF32Kernels; }
std::span<const ConvQ8Kernel> ConvQ8Kernels() { return kQ8Kernels; }

}  // namespace requant

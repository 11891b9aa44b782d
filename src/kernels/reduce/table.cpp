#include "kernels/reduce/table.h"

namespace requant {
namespace {

constexpr ReduceF32Kernel kReduceF32[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/reduce/reduce_f32.inc"
#undef ROW
};

}  // namespace

std::span<const ReduceF32Kernel> ReduceF32Kernels() { return kReduceF32; }

}  // namespace requant

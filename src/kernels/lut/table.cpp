#include "kernels/lut/table.h"

namespace requant {
namespace {

constexpr LutKernel kLut[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/lut/lut.inc"
#undef ROW
};

}  // namespace

std::span<const LutKernel> LutKernels() { return kLut; }

}  // namespace requant

#include "kernels/lut/table.h"

#include "kernels/variant/missing.h"

namespace requant {
namespace {

constexpr LutKernel kLut[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/lut/lut.inc"
#undef ROW
};

constexpr LutBitsKernel kLutBits[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/lut/lut_bits.inc"
#undef ROW
};

}  // namespace

std::span<const LutKernel> LutKernels() { return kLut; }
std::span<const LutBitsKernel> LutBitsKernels() { return kLutBits; }

}  // namespace requant

#include "kernels/elementwise/table.h"

#include "kernels/variant/missing.h"

namespace requant {
namespace {

constexpr BinaryF32Kernel kBinaryF32[] = {
#define ROW(linkage, run, name, isa, op) {name, isa, BinaryF32Op::op, run},
#include "kernels/elementwise/binary_f32.inc"
#undef ROW
};

constexpr UnaryF32Kernel kUnaryF32[] = {
#define ROW(linkage, run, name, isa, op) {name, isa, UnaryF32Op::op, run},
#include "kernels/elementwise/unary_f32.inc"
#undef ROW
};

constexpr QAddKernel kQAdd[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/elementwise/qadd.inc"
#undef ROW
};

constexpr QMulKernel kQMul[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/elementwise/qmul.inc"
#undef ROW
};

constexpr QAddNibblesKernel kQAddNibbles[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/elementwise/qadd_nibbles.inc"
#undef ROW
};

}  // namespace

std::span<const BinaryF32Kernel> BinaryF32Kernels() { return kBinaryF32; }
std::span<const UnaryF32Kernel> UnaryF32Kernels() { return kUnaryF32; }
std::span<const QAddKernel> QAddKernels() { return kQAdd; }
std::span<const QMulKernel> QMulKernels() { return kQMul; }
std::span<const QAddNibblesKernel> QAddNibblesKernels() { return kQAddNibbles; }

}  // namespace requant

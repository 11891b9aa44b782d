#include "kernels/layout/table.h"

namespace requant {
namespace {

constexpr TransposeKernel kTranspose[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/layout/transpose.inc"
#undef ROW
};
constexpr CopyRowsKernel kCopyRows[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/layout/copy_rows.inc"
#undef ROW
};

}  // namespace

std::span<const TransposeKernel> TransposeKernels() { return kTranspose; }
std::span<const CopyRowsKernel> CopyRowsKernels() { return kCopyRows; }

}  // namespace requant

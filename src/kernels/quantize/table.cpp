#include "kernels/quantize/table.h"

namespace requant {
namespace {

constexpr QuantizeKernel kQuantize[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/quantize/quantize.inc"
#undef ROW
};
constexpr DequantizeKernel kDequantize[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/quantize/dequantize.inc"
#undef ROW
};
constexpr QuantizePlanesKernel kQuantizePlanes[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/quantize/quantize_planes.inc"
#undef ROW
};

}  // namespace

std::span<const QuantizeKernel> QuantizeKernels() { return kQuantize; }
std::span<const DequantizeKernel> DequantizeKernels() { return kDequantize; }
std::span<const QuantizePlanesKernel> QuantizePlanesKernels() { return kQuantizePlanes; }

}  // namespace requant

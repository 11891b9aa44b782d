#include "kernels/quantize/table.h"

namespace requant {
namespace {

constexpr QuantizeKernel kQuantize[] = {
    {"quantize_scalar", "scalar", QuantizeReference},
    {"quantize_simd128", "simd128", rq_quantize},
};
constexpr DequantizeKernel kDequantize[] = {
    {"dequantize_scalar", "scalar", DequantizeReference},
    {"dequantize_simd128", "simd128", rq_dequantize},
};
constexpr QuantizePlanesKernel kQuantizePlanes[] = {
    {"quantize_planes_scalar", "scalar", QuantizePlanesReference},
    {"quantize_planes_simd128", "simd128", rq_quantize_planes},
};

}  // namespace

std::span<const QuantizeKernel> QuantizeKernels() { return kQuantize; }
std::span<const DequantizeKernel> DequantizeKernels() { return kDequantize; }
std::span<const QuantizePlanesKernel> QuantizePlanesKernels() { return kQuantizePlanes; }

}  // namespace requant

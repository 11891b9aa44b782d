#pragma once
// The tables of quantizing kernels. The scalar row defines the result; the last row is the best.
#include <span>

#include "kernels/quantize/kernel.h"

namespace requant {

struct QuantizeKernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const QuantizeParams* params);
};
struct DequantizeKernel {
  const char* name;
  const char* isa;
  void (*run)(const DequantizeParams* params);
};
struct QuantizePlanesKernel {
  const char* name;
  const char* isa;
  void (*run)(const QuantizePlanesParams* params);
};

std::span<const QuantizeKernel> QuantizeKernels();
std::span<const DequantizeKernel> DequantizeKernels();
std::span<const QuantizePlanesKernel> QuantizePlanesKernels();

}  // namespace requant

#pragma once
// The tables of depthwise convolution kernels: explicit rows, the reference first.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/dwconv/kernel.h"
#include "kernels/half_weights.h"

namespace requant {

/// How to read the weights of a depthwise convolution, by strides in elements (ONNX [C, 1, kh, kw]
/// has stride_c = kh * kw, stride_h = kw, stride_w = 1).
struct DwConvWeightsLayout {
  int32_t channels = 1, kernel_h = 1, kernel_w = 1;
  int64_t stride_c = 0, stride_h = 0, stride_w = 0;
};

struct DwConvF32Weights {
  DwConvWeightsLayout layout;
  const float* data = nullptr;
  const float* bias = nullptr;  ///< `channels` values or null
  HalfWeights half = {};        ///< instead of `data`; no row takes them as they are
};

struct DwConvQ8Weights {
  DwConvWeightsLayout layout;
  const void* data = nullptr;
  bool is_signed = true;                 ///< int8, else uint8
  const int32_t* zero_points = nullptr;  ///< `channels` values, or null for 0
  const int32_t* bias = nullptr;         ///< `channels` values or null
  /// The codes that the input can hold, including its zero point (the padding).
  int32_t input_lo = -128, input_hi = 255;
};

struct DwConvF32Kernel {
  const char* name;
  const char* isa;  ///< "scalar" or "simd128"
  size_t (*packed_size)(const DwConvF32Weights& weights);
  void (*pack_weights)(const DwConvF32Weights& weights, void* packed);  ///< 16-byte aligned
  size_t (*workspace_size)(const ConvGeometry& geometry);
  void (*run)(const DwConvF32Params* params);
};

struct DwConvQ8Kernel {
  const char* name;
  const char* isa;
  const char* (*missing)();  ///< as in ConvQ8Kernel
  bool (*supports)(const DwConvQ8Weights& weights);
  size_t (*packed_size)(const DwConvQ8Weights& weights);
  void (*pack_weights)(const DwConvQ8Weights& weights, void* packed);  ///< 16-byte aligned
  size_t (*workspace_size)(const ConvGeometry& geometry);
  void (*run)(const DwConvQ8Params* params);
};

/// The rows of the tables. Sizes are in bytes; packed_size and workspace_size throw Error when they
/// overflow.
std::span<const DwConvF32Kernel> DwConvF32Kernels();
std::span<const DwConvQ8Kernel> DwConvQ8Kernels();

/// The largest |accumulator| of each channel, as ConvQ8AccumulatorBounds defines it.
void DwConvQ8AccumulatorBounds(const DwConvQ8Weights& weights, int32_t max_abs_input,
                               int64_t* bounds);

}  // namespace requant

#pragma once
// The convolution kernels there are: explicit rows, the reference first.
#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/conv/kernel.h"

namespace requant {

/// Weights as the model holds them, read through strides (in elements), so that OIHW, OHWI and the
/// [K, N] or [N, K] matrix of a Gemm need no transposition first. Sizes: out_c = groups * (out
/// channels per group); in_c_per_group inputs per output.
struct ConvWeightsLayout {
  int32_t out_c = 1, in_c_per_group = 1, kernel_h = 1, kernel_w = 1, groups = 1;
  int64_t stride_o = 0, stride_i = 0, stride_h = 0, stride_w = 0;
};

/// Layout of a dense ONNX weight tensor [out_c, in_c / groups, kernel_h, kernel_w].
ConvWeightsLayout OihwLayout(int32_t out_c, int32_t in_c_per_group, int32_t kernel_h,
                             int32_t kernel_w, int32_t groups);

struct ConvF32Weights {
  ConvWeightsLayout layout;
  const float* data = nullptr;
  const float* bias = nullptr;  ///< out_c values or null
};

struct ConvQ8Weights {
  ConvWeightsLayout layout;
  const void* data = nullptr;
  bool is_signed = true;                 ///< int8, else uint8
  const int32_t* zero_points = nullptr;  ///< out_c values, or null for 0
  const int32_t* bias = nullptr;         ///< out_c values or null
  /// The codes that the input can hold, its zero point (the padding) included.
  int32_t input_lo = -128, input_hi = 255;
  bool computed = false;  ///< other weights follow: what is packed must do for any codes
};

/// How a row goes over the output pixels.
enum class ConvWalk : int32_t {
  kRows,       ///< one after the other
  kPanels,     ///< gathering the windows of ConvGeometry::panel_rows at a time
  kTwoLines,   ///< in tiles of two lines
  kFourLines,  ///< of four
};

struct ConvF32Kernel {
  const char* name;
  const char* isa;  ///< "scalar" or "simd128"
  bool (*supports)(const ConvGeometry& geometry);
  bool (*pays)(const ConvGeometry& geometry);  ///< as of ConvQ8Kernel
  ConvWalk walk;
  size_t (*packed_size)(const ConvF32Weights& weights);
  void (*pack_weights)(const ConvF32Weights& weights, void* packed);  ///< 16-byte aligned
  size_t (*workspace_size)(const ConvGeometry& geometry);
  void (*run)(const ConvF32Params* params);
};

struct ConvQ8Kernel {
  const char* name;
  const char* isa;  ///< "scalar", "simd128", or "relaxed": right everywhere, fast only there
  const char* (*missing)();  ///< what this machine lacks for this row, or null; null: nothing
  /// Whether it is right, and, of what it is right for, whether it is usually faster than the rows
  /// before it. Where it does not pay it only runs when it is forced or was tuned.
  bool (*supports)(const ConvQ8Weights& weights, const ConvGeometry& geometry);
  bool (*pays)(const ConvQ8Weights& weights, const ConvGeometry& geometry);
  ConvWalk walk;
  size_t (*packed_size)(const ConvQ8Weights& weights);
  void (*pack_weights)(const ConvQ8Weights& weights, void* packed);  ///< 16-byte aligned
  size_t (*workspace_size)(const ConvGeometry& geometry);
  void (*run)(const ConvQ8Params* params);
};

/// Sizes are in bytes; packed_size and workspace_size throw Error when they overflow.
std::span<const ConvF32Kernel> ConvF32Kernels();
std::span<const ConvQ8Kernel> ConvQ8Kernels();

/// Bits that tell the weights apart, less their zero points: 1 for {-1, 1}, 4 for -8..7; 8 also for
/// more.
int32_t ConvQ8WeightBits(const ConvQ8Weights& weights);

/// Largest |accumulator| of each output channel for an input of the given range (after subtracting
/// its zero point), bias included: the `bounds` of PrepareRequantize.
void ConvQ8AccumulatorBounds(const ConvQ8Weights& weights, int32_t max_abs_input, int64_t* bounds);

}  // namespace requant

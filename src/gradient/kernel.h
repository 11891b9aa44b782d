#pragma once
// The layers of a network that learns: products and convolutions of a batch, forward and backward.
//
// These kernels are part of the core, in the module that quantizes and trains. Threads have them as
// well (bindings/cmake/wasm.cmake). They multiply and add without fusing, so that training has the
// same bits everywhere. Freestanding.
#include <stddef.h>
#include <stdint.h>

#include "gradient/windows.h"

#if defined(__wasm__) && !defined(__EMSCRIPTEN__)
#define RQ_GRADIENT_KERNEL(name) \
  extern "C" __attribute__((export_name(#name), visibility("default")))
#else
#define RQ_GRADIENT_KERNEL(name) extern "C"
#endif

namespace requant::gradient {

/// For the samples in [begin, end) and the columns in [column_begin, column_end):
///   c[sample] = a[sample] * b[sample], or += with `add`
/// of float32 matrices rows x depth, depth x columns and rows x columns. Element (row, column) of a
/// matrix is at row * row_step + column * column_step; columns of c are adjacent. Samples may share
/// a matrix c only if they are added.
struct ProductParams {
  int64_t rows = 0, depth = 0;
  const float* const* a = nullptr;
  const float* const* b = nullptr;
  float* const* c = nullptr;
  int64_t a_row_step = 0, a_column_step = 0;
  int64_t b_row_step = 0, b_column_step = 0;
  int64_t c_step = 0;
  int32_t add = 0;
  float* scratch = nullptr;  ///< GemmScratch(rows) floats
  int64_t begin = 0, end = 0;
  int64_t column_begin = 0, column_end = 0;
};

/// A convolution of float32 images, channels first, with weights [groups][rows][channels][taps].
///   outputs          y[sample] of the samples in [begin, end)
///   input gradient   dx[sample] of the samples in [begin, end)
///   weight gradient  dw += the gradient by the weights of the input channels in [begin, end),
///   which
///                    count through all groups, of all `samples`
struct ConvolutionParams {
  Windows windows;
  int64_t groups = 1;
  int64_t rows = 1;  ///< output channels of a group
  /// Whether Winograd's filtering may be used, whose sums have other rounding errors: sums of
  /// integers times a scale are not exact.
  int32_t filter_minimally = 0;
  const float* weights = nullptr;
  const float* bias = nullptr;  ///< one number for each output channel, or null
  const float* const* x = nullptr;
  float* const* y = nullptr;
  const float* const* dy = nullptr;
  float* const* dx = nullptr;
  float* dw = nullptr;
  float* scratch = nullptr;  ///< ConvolutionScratch() floats
  int64_t samples = 0;
  int64_t begin = 0, end = 0;
};

/// One sample of values with channels, [n, channels, ...]: `rows` = n * channels runs of `inner`
/// floats, row i of channel i % channels.
struct ChannelSample {
  const float* x = nullptr;
  const float* dy = nullptr;
  float* y = nullptr;
  float* sums = nullptr;      ///< one number for each row
  float* products = nullptr;  ///< one number for each row
  int64_t rows = 0, inner = 0;
};

/// What rq_channels computes.
enum class ChannelFunction : int32_t {
  kMoments,   ///< sums = the sum of x, products = the sum of (x - the row's mean)^2
  kProducts,  ///< sums = the sum of dy, products = the sum of dy * (x - mean)
  kOutputs,   ///< y = (x - mean) * factor + shift
  kGradient,  ///< y = factor * (dy - shift - (x - mean) * slope)
};

/// The normalization of channels, for the samples in [begin, end). Sums of a row are float32 in
/// sixteen parts, whose order is the same on every machine.
struct ChannelParams {
  ChannelFunction function = ChannelFunction::kMoments;
  const ChannelSample* samples = nullptr;
  int64_t channels = 1;
  const float* mean = nullptr;  ///< one number for each channel, like the next three
  const float* factor = nullptr;
  const float* shift = nullptr;
  const float* slope = nullptr;
  float* scratch = nullptr;  ///< unused
  int64_t begin = 0, end = 0;
};

/// The elements of one sample. `y` may be one of the operands.
struct ElementSample {
  const float* a = nullptr;
  const float* b = nullptr;
  const float* c = nullptr;
  float* y = nullptr;
  int64_t count = 0;
  double sum = 0;  ///< what a kernel adds up, if it does
};

/// What rq_elements computes.
enum class ElementFunction : int32_t {
  kAdd,     ///< y = a + b
  kClip,    ///< y = a limited to [low, high]; NaN stays
  kFinite,  ///< y = a where it is finite, else 0
  /// y = c where a == b and c is finite, else 0: a is the operator's input, b its output
  kClipGradient,
  kReluGradient,  ///< y = b where a > 0 and b is finite, else 0
  /// y = scale * (a / scale, limited to [low, high] and rounded half to even)
  kRoundToGrid,
  /// y = b where a lies inside of the grid's range or stays off the grid, else 0; sum = the
  /// gradient by the scale's logarithm, divided by the scale
  kGridGradient,
};

/// A function of single elements, for the samples in [begin, end). An element stays off the grid if
/// `drops` is set and so is its bit of the pseudo-random numbers of `mix` (gradient/drawn.h).
struct ElementParams {
  ElementFunction function = ElementFunction::kAdd;
  ElementSample* samples = nullptr;
  float low = 0, high = 0, scale = 1;
  uint32_t mix = 0;
  int32_t drops = 0;
  float* scratch = nullptr;  ///< unused
  int64_t begin = 0, end = 0;
};

/// Floats that a kernel needs as scratch for `channels` input channels of a group: all of them, or
/// those of its part of the gradient by the weights.
int64_t ConvolutionScratch(const ConvolutionParams& params, int64_t channels);

}  // namespace requant::gradient

#define ROW(number, run, Params) \
  RQ_GRADIENT_KERNEL(run) void run(const requant::gradient::Params* params);
#include "gradient/kernels.inc"
#undef ROW

namespace requant::gradient {

/// Numbers of the kernels for threads (ParallelRunner): they are the first of KernelEntries.
enum KernelNumber {
#define ROW(number, run, Params) number,
#include "gradient/kernels.inc"
#undef ROW
};

}  // namespace requant::gradient

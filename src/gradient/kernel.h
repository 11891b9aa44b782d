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

#pragma once
// The shape of a sliding-window operator over NHWC images. Freestanding, shared by kernels and
// planner.
#include <stdint.h>

namespace requant {

/// A 2-D window over NHWC. All counts are >= 1, pads >= 0; every product of sizes fits int32 (the
/// planner checks). A matrix product [M, K] x [K, N] is batch 1, in_h 1, in_w M, in_c K, out_w M,
/// out_c N, kernel and stride 1, no padding. Padding at the bottom and right follows from out_h and
/// out_w: any window position outside the image reads the padding value.
struct ConvGeometry {
  int32_t batch = 1;
  int32_t in_h = 1, in_w = 1, in_c = 1;
  int32_t out_h = 1, out_w = 1, out_c = 1;
  int32_t kernel_h = 1, kernel_w = 1;
  int32_t stride_h = 1, stride_w = 1;
  int32_t dilation_h = 1, dilation_w = 1;
  int32_t pad_top = 0, pad_left = 0;
  int32_t groups = 1;
  /// Elements from one pixel to the next: >= in_c, >= out_c. They are larger when the tensor is a
  /// slice of the channels of a wider one (a Concat written in place).
  int32_t input_stride = 1;
  int32_t output_stride = 1;
  /// How many windows a convolution that gathers them gathers at a time; 0 leaves the number to the
  /// kernel.
  int32_t panel_rows = 0;
};

/// The number of output pixels. A kernel may be asked to compute any rows within [0, ConvRows).
inline int32_t ConvRows(const ConvGeometry& g) { return g.batch * g.out_h * g.out_w; }

}  // namespace requant

#pragma once
// The position of an output pixel's window. The scalar and the vector rows share it; freestanding.
#include "kernels/pool/kernel.h"

namespace requant::pool {

/// One axis of a window. Taps [begin, end) of the kernel lie inside the image, the first of them at
/// image coordinate `start`; `counted` taps lie inside the padded image.
struct Axis {
  int32_t begin, end, start, counted;
};

/// n / d rounded up, n >= 0. d is nearly always 1.
static inline __attribute__((always_inline)) int32_t CeilDiv(int32_t n, int32_t d) {
  return d == 1 ? n : (n + d - 1) / d;
}

/// The axis of output `out`, whose taps are at out * stride - pad_before + tap * dilation.
static inline __attribute__((always_inline)) Axis MakeAxis(int32_t out, int32_t stride,
                                                           int32_t pad_before, int32_t pad_after,
                                                           int32_t dilation, int32_t taps,
                                                           int32_t size) {
  const int32_t origin = out * stride - pad_before;
  Axis axis{0, 0, 0, 0};
  // Finds the first tap at or after 0 and the first at or after `size`.
  if (origin < 0) axis.begin = CeilDiv(-origin, dilation);
  if (axis.begin > taps) axis.begin = taps;
  axis.end = origin >= size ? 0 : CeilDiv(size - origin, dilation);
  if (axis.end > taps) axis.end = taps;
  if (axis.end < axis.begin) axis.end = axis.begin;
  // An empty range starts at 0, so that addresses made from it stay inside the tensor.
  axis.start = axis.begin < axis.end ? origin + axis.begin * dilation : 0;
  const int32_t reach = size + pad_after - origin;  // origin >= -pad_before always
  axis.counted = reach <= 0 ? 0 : CeilDiv(reach, dilation);
  if (axis.counted > taps) axis.counted = taps;
  return axis;
}

struct Window {
  Axis y, x;
  int32_t batch;
};

/// Walks the windows of output pixels row, row + 1, ... (batch, y, x in this order) without a
/// division for each.
class Walker {
 public:
  inline __attribute__((always_inline))
  Walker(const ConvGeometry& g, int32_t pad_bottom, int32_t pad_right, int32_t row)
      : pad_bottom_(pad_bottom),
        pad_right_(pad_right),
        out_x_(row % g.out_w),
        out_y_(row / g.out_w % g.out_h),
        batch_(row / g.out_w / g.out_h),
        y_(AxisY(g)) {}

  inline __attribute__((always_inline)) Window Next(const ConvGeometry& g) {
    const Window window{
        y_, MakeAxis(out_x_, g.stride_w, g.pad_left, pad_right_, g.dilation_w, g.kernel_w, g.in_w),
        batch_};
    if (++out_x_ == g.out_w) {
      out_x_ = 0;
      if (++out_y_ == g.out_h) {
        out_y_ = 0;
        ++batch_;
      }
      y_ = AxisY(g);
    }
    return window;
  }

 private:
  inline __attribute__((always_inline)) Axis AxisY(const ConvGeometry& g) const {
    return MakeAxis(out_y_, g.stride_h, g.pad_top, pad_bottom_, g.dilation_h, g.kernel_h, g.in_h);
  }

  int32_t pad_bottom_, pad_right_, out_x_, out_y_, batch_;
  Axis y_;
};

/// The divisor of an average over this window.
static inline __attribute__((always_inline)) int32_t CountOf(const Window& w,
                                                             const PoolCount& count) {
  if (count.include_pad) return w.y.counted * w.x.counted;
  return (w.y.end - w.y.begin) * (w.x.end - w.x.begin);
}

/// The element offset of the first tap inside the image (channel 0).
static inline __attribute__((always_inline)) size_t FirstTap(const ConvGeometry& g,
                                                             const Window& w) {
  const size_t line = static_cast<size_t>(w.batch) * g.in_h + w.y.start;
  return (line * g.in_w + w.x.start) * g.input_stride;
}

}  // namespace requant::pool

#include "kernels/geometry_check.h"

#include <cstdint>

#include "base/checked_math.h"
#include "base/error.h"

namespace requant {
namespace {

void RequireSmall(int64_t value) {
  if (value > INT32_MAX) {
    Fail(ErrorCode::kUnsupported, "a window operator is too large for 32-bit indices",
         {.hint = "reduce the batch or the spatial size of the input"});
  }
}

}  // namespace

void CheckConvGeometry(const ConvGeometry& g) {
  const bool positive = g.batch > 0 && g.in_h > 0 && g.in_w > 0 && g.in_c > 0 && g.out_h > 0 &&
                        g.out_w > 0 && g.out_c > 0 && g.kernel_h > 0 && g.kernel_w > 0 &&
                        g.stride_h > 0 && g.stride_w > 0 && g.dilation_h > 0 && g.dilation_w > 0 &&
                        g.pad_top >= 0 && g.pad_left >= 0 && g.groups > 0;
  if (!positive || g.in_c % g.groups != 0 || g.out_c % g.groups != 0 || g.input_stride < g.in_c ||
      g.output_stride < g.out_c) {
    Fail(ErrorCode::kInternal, "the geometry of a window operator is inconsistent");
  }
  const auto product = [](int64_t a, int64_t b, int64_t c) {
    return CheckedMul64(CheckedMul64(a, b), c);
  };
  RequireSmall(product(g.batch, g.in_h, g.in_w));
  RequireSmall(product(g.batch, g.out_h, g.out_w));
  RequireSmall(CheckedMul64(product(g.kernel_h, g.kernel_w, g.in_c / g.groups), 8));
  // The depthwise kernel keeps whole rows of window positions, padding included.
  const int64_t reach_w = int64_t{g.out_w} * g.stride_w + int64_t{g.kernel_w} * g.dilation_w;
  const int64_t reach_h = int64_t{g.out_h} * g.stride_h + int64_t{g.kernel_h} * g.dilation_h;
  RequireSmall(reach_h + g.pad_top + g.in_h);
  RequireSmall(product(reach_w + g.pad_left + g.in_w, g.kernel_h + 2, 8));
}

}  // namespace requant

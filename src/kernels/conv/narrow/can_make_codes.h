#pragma once
// Decides where outputs are coded from int16 sums (narrow_codes.h). The kernels and the planner
// must agree on it. Freestanding.
#include "kernels/conv/blocking.h"
#include "kernels/conv/kernel.h"

namespace requant::conv {

/// Whether whole blocks can be coded from int16 sums and add the residual; SetCodes decides for
/// each block.
inline bool CanMakeCodes(const ConvQ8Params* p) {
  const ConvGeometry& g = p->geometry;
  if (p->output_type >= ConvQ8Output::kInt32 || g.out_c / g.groups % kChannelBlock != 0) {
    return false;
  }
  const bool few = p->requantize.narrow.shift != 0;
  if (p->residual == nullptr) return few || p->requantize.float_scale != nullptr;
  const QAddParams& add = p->addition;
  return few && p->addition_is_float == 0 && add.narrow.shift != 0 && add.narrow.saturates == 0 &&
         add.lo - add.narrow.middle >= -128 && add.hi - add.narrow.middle <= 127;
}

/// Whether outputs are written, and residuals read, as bytes.
inline bool HasBytes(const ConvQ8Params* p) {
  return p->output_packed == 0 && p->residual_packed == 0 && p->output_planes == 0 &&
         p->residual_planes == 0;
}

}  // namespace requant::conv

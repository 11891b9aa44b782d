// The scalar rows: the formulas of kernel.h.
#include <algorithm>
#include <cmath>

#include "kernels/attention_codes/share.h"
#include "kernels/attention_codes/table.h"
#include "kernels/lanes.h"

namespace requant {

void CodeTokensReference(const AttentionCodesParams* p) {
  const int32_t zero = p->is_signed != 0 ? 0 : 128;
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    uint8_t* out = p->out + r * p->out_row_stride;
    const auto x = [&](size_t i) { return p->offset ? in[i] - p->offset[i] : in[i]; };
    float most = 0;
    bool has_nan = false;
    for (size_t i = 0; i < p->columns; ++i) {
      has_nan = has_nan || std::isnan(x(i));
      most = std::max(most, std::fabs(x(i)));
    }
    if (has_nan) most = NAN;
    const float inverse = most == 0 ? 0 : 127.0F / most;
    p->factors[r] = most / 127.0F;
    for (size_t i = 0; i < (p->columns + 3) / 4 * 4; ++i) {
      const float code = i < p->columns ? std::nearbyint(x(i) * inverse) : 0;
      const float limited = std::min(std::max(code, -127.0F), 127.0F);
      out[i] = static_cast<uint8_t>(zero + (std::isnan(code) ? 0 : static_cast<int32_t>(limited)));
    }
  }
}

void CodeSharesReference(const AttentionCodesParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    float most = -INFINITY;
    bool has_nan = false;
    for (size_t i = 0; i < p->columns; ++i) {
      has_nan = has_nan || std::isnan(in[i]);
      most = std::max(most, in[i]);
    }
    const bool finite = std::isfinite(most) && !has_nan;
    int64_t sum = 0;
    for (size_t i = 0; i < (p->columns + 3) / 4 * 4; ++i) {
      int32_t share = 0;
      if (finite && i < p->columns) {
        share = static_cast<int32_t>(std::nearbyint(ShareOf(ScalarLanes(), in[i] - most)));
      }
      sum += share;
      p->out[r * p->out_row_stride + i] = static_cast<uint8_t>(share >> 8);
      p->low[r * p->out_row_stride + i] = static_cast<uint8_t>(share & 255);
    }
    const float empty = most == -INFINITY && !has_nan ? 0 : NAN;
    p->factors[r] = finite ? 1.0F / static_cast<float>(sum) : empty;
  }
}

}  // namespace requant

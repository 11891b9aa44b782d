// The scalar rows: the formulas of kernel.h.
#include <algorithm>
#include <cmath>

#include "kernels/token_codes/table.h"

namespace requant {
namespace {

const uint8_t* Row(const void* in, size_t row, size_t stride) {
  return static_cast<const uint8_t*>(in) + row * stride;
}
uint8_t* Row(void* out, size_t row, size_t stride) {
  return static_cast<uint8_t*>(out) + row * stride;
}

}  // namespace

void EncodeTokensReference(const TokenCodesParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const auto* x = reinterpret_cast<const float*>(Row(p->in, r, p->in_row_stride));
    auto* scale = reinterpret_cast<float*>(Row(p->out, r, p->out_row_stride));
    auto* codes = reinterpret_cast<int8_t*>(scale + 1);
    float most = 0;
    bool is_nan = false;
    for (size_t i = 0; i < p->width; ++i) {
      is_nan = is_nan || std::isnan(x[i]);
      most = std::max(most, std::fabs(x[i]));
    }
    if (is_nan) most = NAN;
    const float inverse = most == 0 ? 0 : 127.0F / most;
    *scale = most / 127.0F;
    for (size_t i = 0; i < (p->width + 3) / 4 * 4; ++i) {
      const float code = i < p->width ? std::nearbyint(x[i] * inverse) : 0;
      codes[i] = std::isnan(code) ? int8_t{0}
                                  : static_cast<int8_t>(std::min(std::max(code, -127.0F), 127.0F));
    }
  }
}

void DecodeTokensReference(const TokenCodesParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const auto* scale = reinterpret_cast<const float*>(Row(p->in, r, p->in_row_stride));
    const auto* codes = reinterpret_cast<const int8_t*>(scale + 1);
    auto* x = reinterpret_cast<float*>(Row(p->out, r, p->out_row_stride));
    for (size_t i = 0; i < p->width; ++i) x[i] = static_cast<float>(codes[i]) * *scale;
  }
}

}  // namespace requant

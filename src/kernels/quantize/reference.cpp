#include <cmath>

#include "kernels/quantize/table.h"

namespace requant {
namespace {

int32_t Quantize(float x, float scale, int32_t zero, int32_t lo, int32_t hi) {
  float steps = x / scale;
  if (std::isnan(steps)) steps = 0;
  // Clamping to integers before rounding gives the same result and keeps int32 safe.
  const float least = static_cast<float>(lo - zero);
  const float most = static_cast<float>(hi - zero);
  steps = steps < least ? least : (steps > most ? most : steps);
  return static_cast<int32_t>(std::nearbyint(steps)) + zero;
}

}  // namespace

void QuantizeReference(const QuantizeParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    uint8_t* out = static_cast<uint8_t*>(p->out) + r * p->out_row_stride;
    for (size_t c = 0; c < p->cols; ++c) {
      const float scale = p->scales ? p->scales[c] : p->scale;
      const int32_t zero = p->scales ? (p->zeros ? p->zeros[c] : 0) : p->zero;
      out[c] = static_cast<uint8_t>(Quantize(in[c], scale, zero, p->lo, p->hi));
    }
  }
}

void DequantizeReference(const DequantizeParams* p) {
  for (size_t r = 0; r < p->rows; ++r) {
    const uint8_t* in = static_cast<const uint8_t*>(p->in) + r * p->in_row_stride;
    float* out = p->out + r * p->out_row_stride;
    for (size_t c = 0; c < p->cols; ++c) {
      const float scale = p->scales ? p->scales[c] : p->scale;
      const int32_t zero = p->scales ? (p->zeros ? p->zeros[c] : 0) : p->zero;
      const int32_t q = p->in_signed ? static_cast<int8_t>(in[c]) : in[c];
      out[c] = static_cast<float>(q - zero) * scale;
    }
  }
}

void QuantizePlanesReference(const QuantizePlanesParams* p) {
  for (size_t c = 0; c < p->channels; ++c) {
    const float* in = p->in + c * p->in_plane_stride;
    uint8_t* out = static_cast<uint8_t*>(p->out) + c;
    for (size_t i = 0; i < p->pixels; ++i) {
      out[i * p->out_pixel_stride] =
          static_cast<uint8_t>(Quantize(in[i], p->scale, p->zero, p->lo, p->hi));
    }
  }
}

}  // namespace requant

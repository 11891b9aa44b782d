#include <cstring>

#include "kernels/resize/table.h"

namespace requant {

void ResizeNearest(const ResizeNearestParams* p) {
  const size_t out_line = p->out_w * p->pixel_bytes;
  const auto* image = static_cast<const uint8_t*>(p->in);
  auto* out = static_cast<uint8_t*>(p->out);
  for (size_t n = 0; n < p->images; ++n) {
    for (size_t y = 0; y < p->out_h; ++y, out += out_line) {
      if (y > 0 && p->ys[y] == p->ys[y - 1]) {
        std::memcpy(out, out - out_line, out_line);
        continue;
      }
      const uint8_t* line = image + static_cast<size_t>(p->ys[y]) * p->in_w * p->pixel_bytes;
      for (size_t x = 0; x < p->out_w; ++x) {
        std::memcpy(out + x * p->pixel_bytes, line + static_cast<size_t>(p->xs[x]) * p->pixel_bytes,
                    p->pixel_bytes);
      }
    }
    image += p->in_h * p->in_w * p->pixel_bytes;
  }
}

void ResizeLinearF32Reference(const ResizeLinearF32Params* p) {
  const size_t end = static_cast<size_t>(p->row_end);
  float* out = p->out + static_cast<size_t>(p->row_begin) * p->out_w * p->channels;
  for (size_t row = static_cast<size_t>(p->row_begin); row < end; ++row) {
    const float* image = p->in + row / p->out_h * p->in_h * p->in_w * p->channels;
    const LinearTap& v = p->ys[row % p->out_h];
    const float* top = image + static_cast<size_t>(v.first) * p->in_w * p->channels;
    const float* bottom = image + static_cast<size_t>(v.second) * p->in_w * p->channels;
    for (size_t x = 0; x < p->out_w; ++x, out += p->channels) {
      const LinearTap& h = p->xs[x];
      const size_t left = static_cast<size_t>(h.first) * p->channels;
      const size_t right = static_cast<size_t>(h.second) * p->channels;
      for (size_t c = 0; c < p->channels; ++c) {
        const float above = top[left + c] * h.first_weight + top[right + c] * h.second_weight;
        const float below = bottom[left + c] * h.first_weight + bottom[right + c] * h.second_weight;
        out[c] = above * v.first_weight + below * v.second_weight;
      }
    }
  }
}

}  // namespace requant

// The scalar rows compute one output element at a time.
#include <cmath>
#include <limits>

#include "kernels/pool/table.h"
#include "kernels/pool/window.h"

namespace requant {
namespace {

/// Calls line_end() after each window row and tap(element offset) for every tap inside the image.
template <typename Tap, typename LineEnd>
void ForEachTap(const ConvGeometry& g, const pool::Window& w, Tap&& tap, LineEnd&& line_end) {
  for (int32_t ky = w.y.begin; ky < w.y.end; ++ky) {
    const int32_t y = w.y.start + (ky - w.y.begin) * g.dilation_h;
    for (int32_t kx = w.x.begin; kx < w.x.end; ++kx) {
      const int32_t x = w.x.start + (kx - w.x.begin) * g.dilation_w;
      const size_t pixel = (static_cast<size_t>(w.batch) * g.in_h + y) * g.in_w + x;
      tap(pixel * g.input_stride);
    }
    line_end();
  }
}

/// Stores bit `bit` of one byte of each plane; planes are `step` bytes apart. Bit 0 clears the
/// other bits.
void StorePlanes(int32_t code, int32_t planes, int32_t step, int32_t bit, uint8_t* out) {
  for (int32_t plane = 0; plane < planes; ++plane, out += step) {
    const int32_t before = bit == 0 ? 0 : *out;
    *out = static_cast<uint8_t>(before | (((code >> plane) & 1) << bit));
  }
}

template <typename T>
void MaxPoolBytes(const MaxPoolQ8Params* p) {
  const ConvGeometry& g = p->geometry;
  pool::Walker walker(g, 0, 0, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const pool::Window w = walker.Next(g);
    for (int32_t c = 0; c < g.in_c; ++c) {
      int32_t most = std::numeric_limits<T>::min();
      ForEachTap(
          g, w,
          [&](size_t at) {
            const int32_t q = static_cast<const T*>(p->input)[at + c];
            most = q > most ? q : most;
          },
          [] {});
      most = most < p->lo ? p->lo : (most > p->hi ? p->hi : most);
      if (p->output_planes != 0) {
        const size_t pixel = static_cast<size_t>(row) * p->output_planes;
        auto* planes = static_cast<uint8_t*>(p->output) + pixel * (g.in_c / 8) + c / 8;
        StorePlanes((most - p->lo) >> p->output_spread, p->output_planes, g.in_c / 8, c % 8,
                    planes);
        continue;
      }
      static_cast<T*>(p->output)[static_cast<size_t>(row) * g.output_stride + c] =
          static_cast<T>(most);
    }
  }
}

template <typename Requantize>
void AvgPoolBytes(const AvgPoolQ8Params* p, Requantize&& requantize) {
  const ConvGeometry& g = p->geometry;
  pool::Walker walker(g, p->count.pad_bottom, p->count.pad_right, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const pool::Window w = walker.Next(g);
    const int32_t count = pool::CountOf(w, p->count);
    for (int32_t c = 0; c < g.in_c; ++c) {
      int32_t sum = 0;
      ForEachTap(
          g, w,
          [&](size_t at) {
            const uint8_t byte = static_cast<const uint8_t*>(p->input)[at + c];
            sum += (p->in_signed ? static_cast<int8_t>(byte) : byte) - p->input_zero_point;
          },
          [] {});
      int64_t value = count > 0 ? requantize(sum, count) : 0;
      value += p->output_zero_point;
      value = value < p->lo ? p->lo : (value > p->hi ? p->hi : value);
      static_cast<uint8_t*>(p->output)[static_cast<size_t>(row) * g.output_stride + c] =
          static_cast<uint8_t>(value);
    }
  }
}

}  // namespace

void MaxPoolF32Reference(const MaxPoolF32Params* p) {
  const ConvGeometry& g = p->geometry;
  pool::Walker walker(g, 0, 0, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const pool::Window w = walker.Next(g);
    for (int32_t c = 0; c < g.in_c; ++c) {
      const bool is_empty = w.y.begin >= w.y.end || w.x.begin >= w.x.end;
      float most =
          is_empty ? std::numeric_limits<float>::lowest() : -std::numeric_limits<float>::infinity();
      ForEachTap(
          g, w,
          [&](size_t at) {
            const float x = p->input[at + c];
            if (most < x || std::isnan(x)) most = x;
          },
          [] {});
      p->output[static_cast<size_t>(row) * g.output_stride + c] = most;
    }
  }
}

void MaxPoolQ8Reference(const MaxPoolQ8Params* p) {
  if (p->is_signed) {
    MaxPoolBytes<int8_t>(p);
  } else {
    MaxPoolBytes<uint8_t>(p);
  }
}

void AvgPoolF32Reference(const AvgPoolF32Params* p) {
  const ConvGeometry& g = p->geometry;
  pool::Walker walker(g, p->count.pad_bottom, p->count.pad_right, p->row_begin);
  for (int32_t row = p->row_begin; row < p->row_end; ++row) {
    const pool::Window w = walker.Next(g);
    const int32_t count = pool::CountOf(w, p->count);
    for (int32_t c = 0; c < g.in_c; ++c) {
      float sum = 0;
      float line = 0;
      ForEachTap(
          g, w, [&](size_t at) { line += p->input[at + c]; },
          [&] {
            sum += line;
            line = 0;
          });
      float mean = count > 0 ? sum / static_cast<float>(count) : 0.0f;
      mean = mean < p->lo ? p->lo : mean;
      mean = mean > p->hi ? p->hi : mean;
      p->output[static_cast<size_t>(row) * g.output_stride + c] = mean;
    }
  }
}

void AvgPoolQ8FixedReference(const AvgPoolQ8Params* p) {
  AvgPoolBytes(p, [p](int32_t sum, int32_t count) {
    return RequantizeUpward(sum, p->multipliers[count - p->first_count]);
  });
}

void AvgPoolQ8FloatReference(const AvgPoolQ8Params* p) {
  AvgPoolBytes(p, [p](int32_t sum, int32_t count) {
    const float scale = p->input_scale / (p->output_scale * static_cast<float>(count));
    return RequantizeFloat(sum, scale);
  });
}

}  // namespace requant

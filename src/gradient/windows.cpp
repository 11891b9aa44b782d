#include "gradient/windows.h"

#include "base/simd.h"

namespace requant::gradient {
namespace {

RQ_INLINE int64_t Least(int64_t a, int64_t b) { return a < b ? a : b; }

// Lines of an image are short: memcpy takes longer, and to vectorize a plain loop a compiler would
// have to prove that the lines do not overlap.

/// to += factor * from
RQ_INLINE void AddLine(const float* from, float factor, int64_t count, float* to) {
  const v128_t wide = wasm_f32x4_splat(factor);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    wasm_v128_store(to + i,
                    simd::MulAddF32<false>(wide, wasm_v128_load(from + i), wasm_v128_load(to + i)));
  }
  for (; i < count; ++i) to[i] += factor * from[i];
}

RQ_INLINE void CopyLine(const float* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    wasm_v128_store(to + i, wasm_v128_load(from + i));
  }
  for (; i < count; ++i) to[i] = from[i];
}

RQ_INLINE float DotLines(const float* a, const float* b, int64_t count) {
  v128_t sums = wasm_f32x4_splat(0);
  int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    sums = simd::MulAddF32<false>(wasm_v128_load(a + i), wasm_v128_load(b + i), sums);
  }
  float sum = (wasm_f32x4_extract_lane(sums, 0) + wasm_f32x4_extract_lane(sums, 1)) +
              (wasm_f32x4_extract_lane(sums, 2) + wasm_f32x4_extract_lane(sums, 3));
  for (; i < count; ++i) sum += a[i] * b[i];
  return sum;
}

/// Visits the lines of one tap after the other through one channel: visit(tap, line of outputs,
/// line of inputs, first, last). Output i in [first, last) of the line reads position i * stride of
/// the input line; other outputs read outside of the image.
template <typename Visit>
RQ_INLINE void WalkLines(const Windows& p, const Visit& visit) {
  int64_t tap = 0;
  for (int64_t kd = 0; kd < p.kernel[0]; ++kd) {
    for (int64_t kh = 0; kh < p.kernel[1]; ++kh) {
      for (int64_t kw = 0; kw < p.kernel[2]; ++kw, ++tap) {
        const int64_t left = kw * p.dilation[2] - p.begin[2], stride = p.stride[2];
        // 0 <= w * stride + left < in
        const int64_t first = left >= 0 ? 0 : Least((stride - 1 - left) / stride, p.out[2]);
        const int64_t end = (p.in[2] - left + stride - 1) / stride;
        const int64_t last = end < first ? first : Least(end, p.out[2]);
        int64_t to = 0;
        for (int64_t d = 0; d < p.out[0]; ++d) {
          const int64_t z = d * p.stride[0] + kd * p.dilation[0] - p.begin[0];
          for (int64_t h = 0; h < p.out[1]; ++h, to += p.out[2]) {
            const int64_t y = h * p.stride[1] + kh * p.dilation[1] - p.begin[1];
            const bool inside = z >= 0 && z < p.in[0] && y >= 0 && y < p.in[1] && p.in[2] > left;
            visit(tap, to, inside ? (z * p.in[1] + y) * p.in[2] + left : 0, inside ? first : 0,
                  inside ? last : 0);
          }
        }
      }
    }
  }
}

}  // namespace

void Unfold(const Windows& windows, int64_t channels, const float* image, float* columns) {
  const int64_t pixels = windows.pixels(), width = windows.out[2], stride = windows.stride[2];
  for (int64_t channel = 0; channel < channels; ++channel) {
    WalkLines(windows, [&](int64_t tap, int64_t at, int64_t from, int64_t first, int64_t last) {
      float* to = columns + tap * pixels + at;
      for (int64_t w = 0; w < first; ++w) to[w] = 0;
      if (stride == 1) {
        CopyLine(image + from + first, last - first, to + first);
      } else {
        for (int64_t w = first; w < last; ++w) to[w] = image[from + w * stride];
      }
      for (int64_t w = last; w < width; ++w) to[w] = 0;
    });
    image += windows.plane();
    columns += windows.taps() * pixels;
  }
}

void Fold(const Windows& windows, int64_t channels, const float* columns, float* image) {
  const int64_t pixels = windows.pixels(), stride = windows.stride[2];
  for (int64_t channel = 0; channel < channels; ++channel) {
    WalkLines(windows, [&](int64_t tap, int64_t at, int64_t to, int64_t first, int64_t last) {
      const float* from = columns + tap * pixels + at;
      if (stride == 1) return AddLine(from + first, 1, last - first, image + to + first);
      for (int64_t w = first; w < last; ++w) image[to + w * stride] += from[w];
    });
    image += windows.plane();
    columns += windows.taps() * pixels;
  }
}

void AddSingleOutput(const Windows& windows, const float* x, const float* w, float* y) {
  const int64_t stride = windows.stride[2];
  for (int64_t channel = 0; channel < windows.channels; ++channel) {
    WalkLines(windows, [&](int64_t tap, int64_t at, int64_t from, int64_t first, int64_t last) {
      if (stride == 1) return AddLine(x + from + first, w[tap], last - first, y + at + first);
      for (int64_t i = first; i < last; ++i) y[at + i] += w[tap] * x[from + i * stride];
    });
    x += windows.plane();
    w += windows.taps();
  }
}

void AddSingleWeightGradient(const Windows& windows, int64_t channels, const float* x,
                             const float* dy, float* dw) {
  const int64_t stride = windows.stride[2];
  for (int64_t channel = 0; channel < channels; ++channel) {
    WalkLines(windows, [&](int64_t tap, int64_t at, int64_t from, int64_t first, int64_t last) {
      if (stride == 1) {
        dw[tap] += DotLines(x + from + first, dy + at + first, last - first);
        return;
      }
      float sum = 0;
      for (int64_t i = first; i < last; ++i) sum += x[from + i * stride] * dy[at + i];
      dw[tap] += sum;
    });
    x += windows.plane();
    dw += windows.taps();
  }
}

void AddSingleInputGradient(const Windows& windows, const float* w, const float* dy, float* dx) {
  const int64_t stride = windows.stride[2];
  for (int64_t channel = 0; channel < windows.channels; ++channel) {
    WalkLines(windows, [&](int64_t tap, int64_t at, int64_t to, int64_t first, int64_t last) {
      if (stride == 1) return AddLine(dy + at + first, w[tap], last - first, dx + to + first);
      for (int64_t i = first; i < last; ++i) dx[to + i * stride] += w[tap] * dy[at + i];
    });
    dx += windows.plane();
    w += windows.taps();
  }
}

}  // namespace requant::gradient

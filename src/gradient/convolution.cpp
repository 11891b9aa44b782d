// Convolutions of a batch, forward and backward: by Winograd's minimal filtering where the windows
// allow it, one channel at a time where a group has one output, else as products with unfolded
// windows.
#include "base/simd.h"
#include "gradient/gemm.h"
#include "gradient/kernel.h"
#include "gradient/windows.h"
#include "gradient/winograd.h"

namespace requant::gradient {
namespace {

/// Sizes of one group of one image.
struct Sizes {
  Size channels, rows, k, pixels, plane;
  Size in_height, in_width, out_height, out_width;
  explicit RQ_MEMBER Sizes(const ConvolutionParams& p)
      : channels(static_cast<Size>(p.windows.channels)),
        rows(static_cast<Size>(p.rows)),
        k(static_cast<Size>(p.windows.channels * p.windows.taps())),
        pixels(static_cast<Size>(p.windows.pixels())),
        plane(static_cast<Size>(p.windows.plane())),
        in_height(static_cast<Size>(p.windows.in[1])),
        in_width(static_cast<Size>(p.windows.in[2])),
        out_height(static_cast<Size>(p.windows.out[1])),
        out_width(static_cast<Size>(p.windows.out[2])) {}
};

/// Whether the convolution is filtered minimally.
RQ_INLINE bool Filters(const ConvolutionParams& p) {
  return p.filter_minimally != 0 && FitsWinograd(p.windows, p.rows, p.windows.channels);
}

/// Computes the outputs of one group of one image.
void Outputs(const ConvolutionParams& p, const float* x, const float* weights, const float* bias,
             const float* transformed, float* y, float* scratch) {
  const Sizes s(p);
  const Windows& w = p.windows;
  if (transformed) {
    WinogradOutputs(s.channels, s.in_height, s.in_width, s.rows, s.out_height, s.out_width,
                    static_cast<Size>(w.begin[1]), static_cast<Size>(w.begin[2]), x, transformed,
                    bias, y, scratch);
    return;
  }
  for (Size row = 0; row < s.rows; ++row) {
    const float b = bias ? bias[row] : 0;
    for (Size i = row * s.pixels; i < (row + 1) * s.pixels; ++i) y[i] = b;
  }
  if (s.rows == 1) return AddSingleOutput(w, x, weights, y);
  const float* columns = x;
  if (!w.pointwise) {
    Unfold(w, w.channels, x, scratch);
    columns = scratch;
    scratch += s.k * s.pixels;
  }
  Gemm(s.rows, s.pixels, s.k, weights, s.k, 1, columns, s.pixels, 1, y, s.pixels, true, scratch);
}

/// Computes the gradient by the inputs of one group of one image.
void InputGradient(const ConvolutionParams& p, const float* dy, const float* weights,
                   const float* transformed, float* dx, float* scratch) {
  const Sizes s(p);
  const Windows& w = p.windows;
  if (transformed) {
    WinogradOutputs(s.rows, s.out_height, s.out_width, s.channels, s.in_height, s.in_width,
                    static_cast<Size>(2 - w.begin[1]), static_cast<Size>(2 - w.begin[2]), dy,
                    transformed, nullptr, dx, scratch);
    return;
  }
  if (w.pointwise && s.rows > 1) {
    Gemm(s.k, s.pixels, s.rows, weights, 1, s.k, dy, s.pixels, 1, dx, s.pixels, false, scratch);
    return;
  }
  for (Size i = 0; i < s.channels * s.plane; ++i) dx[i] = 0;
  if (s.rows == 1) return AddSingleInputGradient(w, weights, dy, dx);
  Gemm(s.k, s.pixels, s.rows, weights, 1, s.k, dy, s.pixels, 1, scratch, s.pixels, false,
       scratch + s.k * s.pixels);
  Fold(w, w.channels, scratch, dx);
}

/// Adds the gradient by the weights of input channels [first, last) of one group.
void WeightGradient(const ConvolutionParams& p, Size group, Size first, Size last) {
  const Sizes s(p);
  const Windows& w = p.windows;
  const Size channels = last - first, groups = static_cast<Size>(p.groups);
  const Size taps = s.channels == 0 ? 0 : s.k / s.channels;
  float* dw = p.dw + group * s.rows * s.k + first * taps;
  float* scratch = p.scratch;
  float* sums = nullptr;
  const Size form = FormOf(s.out_height, s.out_width);
  if (Filters(p)) {
    sums = scratch;
    const auto count = static_cast<Size>(WeightFloats(form, s.rows, channels));
    scratch += count;
    for (Size i = 0; i < count; ++i) sums[i] = 0;
  }
  for (Size sample = 0; sample < static_cast<Size>(p.samples); ++sample) {
    for (Size image = 0; image < static_cast<Size>(w.batch); ++image) {
      const float* x = p.x[sample] + ((image * groups + group) * s.channels + first) * s.plane;
      const float* dy = p.dy[sample] + (image * groups + group) * s.rows * s.pixels;
      if (sums) {
        WinogradSums(channels, s.in_height, s.in_width, s.rows, s.out_height, s.out_width,
                     static_cast<Size>(w.begin[1]), static_cast<Size>(w.begin[2]), x, dy, sums,
                     scratch);
      } else if (s.rows == 1) {
        AddSingleWeightGradient(w, channels, x, dy, dw);
      } else {
        const float* columns = x;
        if (!w.pointwise) Unfold(w, channels, x, scratch);
        if (!w.pointwise) columns = scratch;
        Gemm(s.rows, channels * taps, s.pixels, dy, s.pixels, 1, columns, 1, s.pixels, dw, s.k,
             true, scratch + (w.pointwise ? 0 : channels * taps * s.pixels));
      }
    }
  }
  if (sums) AddWeightGradient(form, sums, s.rows, channels, dw, s.k);
}

/// Calls each(sample, first row, x, y, weights, transformed, scratch) for every group of every
/// image of the samples in [begin, end). x and y are where the group begins in the inputs and
/// outputs of the sample; `transformed` are the weights as `transform` writes them, null if none
/// are filtered.
template <typename Transform, typename Each>
RQ_INLINE void ForImages(const ConvolutionParams& p, Size form, const Transform& transform,
                         const Each& each) {
  const Sizes s(p);
  const auto groups = static_cast<Size>(p.groups), images = static_cast<Size>(p.windows.batch);
  float* scratch = p.scratch;
  float* transformed = nullptr;
  if (Filters(p)) {
    transformed = scratch;
    scratch += static_cast<Size>(WeightFloats(form, s.rows, s.channels));
  }
  for (Size group = 0; group < groups; ++group) {
    const float* weights = p.weights + group * s.rows * s.k;
    if (transformed) transform(form, weights, s.rows, s.channels, transformed);
    for (Size sample = static_cast<Size>(p.begin); sample < static_cast<Size>(p.end); ++sample) {
      for (Size image = 0; image < images; ++image) {
        const Size at = image * groups + group;
        each(sample, group * s.rows, at * s.channels * s.plane, at * s.rows * s.pixels, weights,
             transformed, scratch);
      }
    }
  }
}

}  // namespace

int64_t ConvolutionScratch(const ConvolutionParams& p, int64_t channels) {
  const Windows& w = p.windows;
  if (Filters(p)) {
    const Sizes s(p);
    const int64_t forward = WinogradScratch(s.out_height, s.out_width, channels, p.rows);
    const int64_t backward = WinogradScratch(s.in_height, s.in_width, p.rows, channels);
    const int64_t weights = WeightFloats(FormOf(s.out_height, s.out_width), p.rows, channels);
    const int64_t turned = WeightFloats(FormOf(s.in_height, s.in_width), p.rows, channels);
    return (weights > turned ? weights : turned) + (forward > backward ? forward : backward);
  }
  if (p.rows == 1) return 0;
  const int64_t k = channels * w.taps();
  return GemmScratch(p.rows > k ? p.rows : k) + (w.pointwise ? 0 : k * w.pixels());
}

extern "C" {

void rq_conv_outputs(const ConvolutionParams* p) {
  const Sizes s(*p);
  ForImages(
      *p, FormOf(s.out_height, s.out_width),
      [](Size form, const float* weights, Size rows, Size channels, float* to) {
        TransformWeights(form, weights, rows, channels, to);
      },
      [p](Size sample, Size row, Size x, Size y, const float* weights, const float* transformed,
          float* scratch) {
        Outputs(*p, p->x[sample] + x, weights, p->bias ? p->bias + row : nullptr, transformed,
                p->y[sample] + y, scratch);
      });
}

void rq_conv_input_gradient(const ConvolutionParams* p) {
  const Sizes s(*p);
  ForImages(
      *p, FormOf(s.in_height, s.in_width),
      [](Size form, const float* weights, Size rows, Size channels, float* to) {
        TransformTurned(form, weights, channels, rows, to);
      },
      [p](Size sample, Size, Size x, Size y, const float* weights, const float* transformed,
          float* scratch) {
        InputGradient(*p, p->dy[sample] + y, weights, transformed, p->dx[sample] + x, scratch);
      });
}

void rq_conv_weight_gradient(const ConvolutionParams* p) {
  const Size channels = static_cast<Size>(p->windows.channels);
  Size at = static_cast<Size>(p->begin);
  while (at < static_cast<Size>(p->end)) {
    const Size group = at / channels, first = at % channels;
    const Size left = static_cast<Size>(p->end) - at;
    const Size last = first + left < channels ? first + left : channels;
    WeightGradient(*p, group, first, last);
    at += last - first;
  }
}

}  // extern "C"

}  // namespace requant::gradient

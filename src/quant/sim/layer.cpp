#include "quant/sim/layer.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "quant/sim/gemm.h"
#include "quant/sim/windows.h"

namespace requant {

LayerMath::LayerMath(const Node& node, QuantRule rule)
    : node_(node),
      rule_(rule),
      view_(ViewWeights(node, rule)),
      transposed_(node.Is(Op::kConvTranspose)) {}

Windows LayerMath::WindowsOf(const Tensor& x) const {
  Windows windows;
  const Shape& weights = node_.inputs[1]->constant.shape();
  const size_t spatial = weights.size() - 2;
  windows.channels = view_.k / view_.taps;
  if (x.rank() != static_cast<int64_t>(weights.size()) ||
      x.dim(1) != windows.channels * view_.groups || spatial > 3) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the layer cannot take a tensor of ", ShapeToString(x.shape())),
         {.node = node_.name});
  }
  windows.batch = x.dim(0);
  if (transposed_) {
    const Geometry g = TransposedGeometry(node_.attributes, x.shape(), weights);
    for (size_t at = 0; at < 3; ++at) {
      windows.in[at] = g.output[at];
      windows.out[at] = g.input[at];
      windows.begin[at] = g.pad_begin[at];
      windows.kernel[at] = g.kernel[at];
      windows.stride[at] = g.stride[at];
      windows.dilation[at] = g.dilation[at];
    }
    return windows;
  }
  const Window window = ReadWindow(node_.attributes, {weights.begin() + 2, weights.end()});
  windows.pointwise = true;
  for (size_t axis = 0; axis < spatial; ++axis) {
    const size_t at = 3 - spatial + axis;
    windows.in[at] = x.dim(static_cast<int64_t>(axis) + 2);
    const WindowAxis placed = PlaceWindow(window, axis, windows.in[at]);
    windows.out[at] = placed.output;
    windows.begin[at] = placed.pad_begin;
    windows.kernel[at] = window.kernel[axis];
    windows.stride[at] = window.strides[axis];
    windows.dilation[at] = window.dilations[axis];
    windows.pointwise = windows.pointwise && window.kernel[axis] == 1 &&
                        window.strides[axis] == 1 && placed.pad_begin == 0 &&
                        placed.output == windows.in[at];
  }
  return windows;
}

Shape LayerMath::OutputShape(const Tensor& x, const Windows& windows) const {
  Shape shape = x.shape();
  shape[1] = view_.rows;
  const size_t spatial = shape.size() - 2;
  for (size_t axis = 0; axis < spatial; ++axis) {
    shape[axis + 2] = (transposed_ ? windows.in : windows.out)[3 - spatial + axis];
  }
  return shape;
}

Tensor LayerMath::Forward(const Tensor& x, const float* weights, const std::vector<float>& bias) {
  const float* data = x.data<float>();
  if (rule_ != QuantRule::kConv) {
    Shape shape = x.shape();
    if (shape.empty() || shape.back() != view_.k) {
      Fail(ErrorCode::kShapeMismatch, "the layer cannot take such rows", {.node = node_.name});
    }
    shape.back() = view_.rows;
    Tensor y(DType::kFloat32, shape);
    const int64_t count = view_.k == 0 ? 0 : x.count() / view_.k;
    auto* out = y.data<float>();
    for (int64_t i = 0; i < y.count() && !bias.empty(); ++i) {
      out[i] = bias[static_cast<size_t>(i % view_.rows)];
    }
    Gemm(count, view_.rows, view_.k, {data, view_.k, 1},
         {weights, view_.k_stride, view_.row_stride}, out, view_.rows, true);
    return y;
  }
  const Windows windows = WindowsOf(x);
  Tensor y(DType::kFloat32, OutputShape(x, windows));
  if (transposed_) {
    ForwardTransposed(windows, data, weights, bias, y.data<float>());
    return y;
  }
  auto* out = y.data<float>();
  const int64_t pixels = windows.pixels();
  const int64_t rows = view_.rows_per_group();
  if (rows > 1 && !windows.pointwise) columns_.resize(static_cast<size_t>(view_.k * pixels));
  for (int64_t image = 0; image < windows.batch; ++image) {
    for (int64_t group = 0; group < view_.groups; ++group) {
      const float* from =
          data + (image * view_.groups + group) * windows.channels * windows.plane();
      float* to = out + (image * view_.rows + group * rows) * pixels;
      for (int64_t row = 0; row < rows; ++row) {
        const float b = bias.empty() ? 0 : bias[static_cast<size_t>(group * rows + row)];
        std::fill_n(to + row * pixels, pixels, b);
      }
      const float* w = weights + group * rows * view_.k;
      if (rows == 1) {
        AddSingleOutput(windows, from, w, to);
        continue;
      }
      if (!windows.pointwise) Unfold(windows, windows.channels, from, columns_.data());
      const float* columns = windows.pointwise ? from : columns_.data();
      Gemm(rows, pixels, view_.k, {w, view_.k, 1}, {columns, pixels, 1}, to, pixels, true);
    }
  }
  return y;
}

void LayerMath::VisitPixels(const Tensor& x, const Tensor& y,
                            const std::function<void(const LayerPixels&)>& visit) {
  const auto *from = x.data<float>(), *to = y.data<float>();
  if (rule_ != QuantRule::kConv) {
    const int64_t count = view_.k == 0 ? 0 : x.count() / view_.k;
    visit({0, count, {from, 1, view_.k}, {to, 1, view_.rows}});
    return;
  }
  const Windows windows = WindowsOf(x);
  const int64_t pixels = windows.pixels(), rows = view_.rows_per_group();
  if (!windows.pointwise) columns_.resize(static_cast<size_t>(view_.k * pixels));
  for (int64_t at = 0; at < windows.batch * view_.groups; ++at) {
    const float* image = from + at * windows.channels * windows.plane();
    if (!windows.pointwise) Unfold(windows, windows.channels, image, columns_.data());
    const float* columns = windows.pointwise ? image : columns_.data();
    visit({at % view_.groups, pixels, {columns, pixels, 1}, {to + at * rows * pixels, pixels, 1}});
  }
}

void LayerMath::Backward(const Tensor& x, const float* weights, const Tensor& y_gradient,
                         float* weight_gradient, float* bias_gradient, Tensor* x_gradient) {
  const float* data = x.data<float>();
  const float* dy = y_gradient.data<float>();
  if (x_gradient) *x_gradient = Tensor(DType::kFloat32, x.shape());
  if (rule_ != QuantRule::kConv) {
    const int64_t count = view_.k == 0 ? 0 : x.count() / view_.k;
    for (int64_t i = 0; i < count * view_.rows && bias_gradient; ++i) {
      bias_gradient[i % view_.rows] += dy[i];
    }
    if (weight_gradient && view_.k_stride == 1) {  // [rows][k]
      Gemm(view_.rows, view_.k, count, {dy, 1, view_.rows}, {data, view_.k, 1}, weight_gradient,
           view_.row_stride, true);
    } else if (weight_gradient) {  // [k][rows]
      Gemm(view_.k, view_.rows, count, {data, 1, view_.k}, {dy, view_.rows, 1}, weight_gradient,
           view_.k_stride, true);
    }
    if (x_gradient) {
      Gemm(count, view_.k, view_.rows, {dy, view_.rows, 1},
           {weights, view_.row_stride, view_.k_stride}, x_gradient->data<float>(), view_.k, false);
    }
    return;
  }
  const Windows windows = WindowsOf(x);
  if (transposed_) {
    BackwardTransposed(windows, data, weights, dy, weight_gradient, bias_gradient,
                       x_gradient ? x_gradient->data<float>() : nullptr);
    return;
  }
  const int64_t pixels = windows.pixels();
  const int64_t rows = view_.rows_per_group();
  if (rows > 1) columns_.resize(static_cast<size_t>(view_.k * pixels));
  for (int64_t image = 0; image < windows.batch; ++image) {
    for (int64_t group = 0; group < view_.groups; ++group) {
      const int64_t at = (image * view_.groups + group) * windows.channels * windows.plane();
      const float* gradient = dy + (image * view_.rows + group * rows) * pixels;
      for (int64_t row = 0; row < rows && bias_gradient; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += gradient[row * pixels + i];
        bias_gradient[group * rows + row] += sum;
      }
      if (rows == 1) {
        const float* w = weights + group * view_.k;
        if (weight_gradient) {
          AddSingleWeightGradient(windows, data + at, gradient, weight_gradient + group * view_.k);
        }
        if (x_gradient)
          AddSingleInputGradient(windows, w, gradient, x_gradient->data<float>() + at);
        continue;
      }
      if (weight_gradient) {
        if (!windows.pointwise) Unfold(windows, windows.channels, data + at, columns_.data());
        const float* columns = windows.pointwise ? data + at : columns_.data();
        Gemm(rows, view_.k, pixels, {gradient, pixels, 1}, {columns, 1, pixels},
             weight_gradient + group * rows * view_.k, view_.k, true);
      }
      if (x_gradient == nullptr) continue;
      float* to = x_gradient->data<float>() + at;
      const float* w = weights + group * rows * view_.k;
      if (windows.pointwise) {
        Gemm(view_.k, pixels, rows, {w, 1, view_.k}, {gradient, pixels, 1}, to, pixels, false);
        continue;
      }
      Gemm(view_.k, pixels, rows, {w, 1, view_.k}, {gradient, pixels, 1}, columns_.data(), pixels,
           false);
      Fold(windows, windows.channels, columns_.data(), to);
    }
  }
}

/// Computes y = W^T x for every pixel of x, folded into the image. The weights of a group are the
/// matrix [channels][outputs * taps].
void LayerMath::ForwardTransposed(const Windows& windows, const float* x, const float* weights,
                                  const std::vector<float>& bias, float* y) {
  const int64_t pixels = windows.pixels();
  const int64_t outputs = view_.rows_per_group();
  const int64_t wide = outputs * view_.taps;
  columns_.resize(static_cast<size_t>(wide * pixels));
  for (int64_t i = 0; i < windows.batch * view_.groups; ++i) {
    const int64_t group = i % view_.groups;
    float* image = y + i * outputs * windows.plane();
    for (int64_t row = 0; row < outputs; ++row) {
      const float b = bias.empty() ? 0 : bias[static_cast<size_t>(group * outputs + row)];
      std::fill_n(image + row * windows.plane(), windows.plane(), b);
    }
    Gemm(wide, pixels, windows.channels, {weights + group * view_.group_stride, 1, wide},
         {x + i * windows.channels * pixels, pixels, 1}, columns_.data(), pixels, false);
    Fold(windows, outputs, columns_.data(), image);
  }
}

void LayerMath::BackwardTransposed(const Windows& windows, const float* x, const float* weights,
                                   const float* dy, float* weight_gradient, float* bias_gradient,
                                   float* x_gradient) {
  const int64_t pixels = windows.pixels();
  const int64_t outputs = view_.rows_per_group();
  const int64_t wide = outputs * view_.taps;
  columns_.resize(static_cast<size_t>(wide * pixels));
  for (int64_t i = 0; i < windows.batch * view_.groups; ++i) {
    const int64_t group = i % view_.groups;
    const float* gradient = dy + i * outputs * windows.plane();
    for (int64_t row = 0; row < outputs && bias_gradient; ++row) {
      float sum = 0;
      for (int64_t at = 0; at < windows.plane(); ++at) sum += gradient[row * windows.plane() + at];
      bias_gradient[group * outputs + row] += sum;
    }
    Unfold(windows, outputs, gradient, columns_.data());
    const int64_t at = i * windows.channels * pixels;
    if (weight_gradient) {
      Gemm(windows.channels, wide, pixels, {x + at, pixels, 1}, {columns_.data(), 1, pixels},
           weight_gradient + group * view_.group_stride, wide, true);
    }
    if (x_gradient) {
      Gemm(windows.channels, pixels, wide, {weights + group * view_.group_stride, wide, 1},
           {columns_.data(), pixels, 1}, x_gradient + at, pixels, false);
    }
  }
}

}  // namespace requant

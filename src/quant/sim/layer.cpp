#include "quant/sim/layer.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/convolve.h"
#include "ops/infer_util.h"
#include "quant/sim/gemm.h"
#include "quant/sim/windows.h"

namespace requant {

LayerMath::LayerMath(const Node& node, QuantRule rule)
    : node_(node),
      rule_(rule),
      view_(ViewWeights(node, rule)),
      transposed_(node.Is("ConvTranspose")) {}

Windows LayerMath::WindowsOf(const Tensor& x) const {
  Windows place;
  const Shape& weights = node_.inputs[1]->constant.shape();
  const size_t spatial = weights.size() - 2;
  place.channels = view_.k / view_.taps;
  if (x.rank() != static_cast<int64_t>(weights.size()) ||
      x.dim(1) != place.channels * view_.groups || spatial > 3) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("the layer cannot take a tensor of ", ShapeToString(x.shape())),
         {.node = node_.name});
  }
  place.batch = x.dim(0);
  if (transposed_) {
    const Geometry g = TransposedGeometry(node_.attributes, x.shape(), weights);
    for (size_t at = 0; at < 3; ++at) {
      place.in[at] = g.output[at];
      place.out[at] = g.input[at];
      place.begin[at] = g.pad_begin[at];
      place.kernel[at] = g.kernel[at];
      place.stride[at] = g.stride[at];
      place.dilation[at] = g.dilation[at];
    }
    return place;
  }
  const Window window = ReadWindow(node_.attributes, {weights.begin() + 2, weights.end()});
  place.pointwise = true;
  for (size_t axis = 0; axis < spatial; ++axis) {
    const size_t at = 3 - spatial + axis;
    place.in[at] = x.dim(static_cast<int64_t>(axis) + 2);
    const WindowAxis placed = PlaceWindow(window, axis, place.in[at]);
    place.out[at] = placed.output;
    place.begin[at] = placed.pad_begin;
    place.kernel[at] = window.kernel[axis];
    place.stride[at] = window.strides[axis];
    place.dilation[at] = window.dilations[axis];
    place.pointwise = place.pointwise && window.kernel[axis] == 1 && window.strides[axis] == 1 &&
                      placed.pad_begin == 0 && placed.output == place.in[at];
  }
  return place;
}

Shape LayerMath::OutputShape(const Tensor& x, const Windows& place) const {
  Shape shape = x.shape();
  shape[1] = view_.rows;
  const size_t spatial = shape.size() - 2;
  for (size_t axis = 0; axis < spatial; ++axis) {
    shape[axis + 2] = (transposed_ ? place.in : place.out)[3 - spatial + axis];
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
  const Windows place = WindowsOf(x);
  Tensor y(DType::kFloat32, OutputShape(x, place));
  if (transposed_) {
    ForwardTransposed(place, data, weights, bias, y.data<float>());
    return y;
  }
  auto* out = y.data<float>();
  const int64_t pixels = place.pixels();
  const int64_t rows = view_.rows_per_group();
  if (!place.pointwise) columns_.resize(static_cast<size_t>(view_.k * pixels));
  for (int64_t image = 0; image < place.batch; ++image) {
    for (int64_t group = 0; group < view_.groups; ++group) {
      const float* from = data + (image * view_.groups + group) * place.channels * place.plane();
      float* to = out + (image * view_.rows + group * rows) * pixels;
      for (int64_t row = 0; row < rows; ++row) {
        const float b = bias.empty() ? 0 : bias[static_cast<size_t>(group * rows + row)];
        std::fill_n(to + row * pixels, pixels, b);
      }
      const float* w = weights + group * rows * view_.k;
      if (rows == 1) {
        AddSingleOutput(place, from, w, to);
        continue;
      }
      if (!place.pointwise) Unfold(place, place.channels, from, columns_.data());
      const float* columns = place.pointwise ? from : columns_.data();
      Gemm(rows, pixels, view_.k, {w, view_.k, 1}, {columns, pixels, 1}, to, pixels, true);
    }
  }
  return y;
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
  const Windows place = WindowsOf(x);
  if (transposed_) {
    BackwardTransposed(place, data, weights, dy, weight_gradient, bias_gradient,
                       x_gradient ? x_gradient->data<float>() : nullptr);
    return;
  }
  const int64_t pixels = place.pixels();
  const int64_t rows = view_.rows_per_group();
  columns_.resize(static_cast<size_t>(view_.k * pixels));
  for (int64_t image = 0; image < place.batch; ++image) {
    for (int64_t group = 0; group < view_.groups; ++group) {
      const int64_t at = (image * view_.groups + group) * place.channels * place.plane();
      const float* gradient = dy + (image * view_.rows + group * rows) * pixels;
      for (int64_t row = 0; row < rows && bias_gradient; ++row) {
        float sum = 0;
        for (int64_t i = 0; i < pixels; ++i) sum += gradient[row * pixels + i];
        bias_gradient[group * rows + row] += sum;
      }
      if (rows == 1) {
        const float* w = weights + group * view_.k;
        if (weight_gradient) {
          AddSingleWeightGradient(place, data + at, gradient, weight_gradient + group * view_.k);
        }
        if (x_gradient) AddSingleInputGradient(place, w, gradient, x_gradient->data<float>() + at);
        continue;
      }
      if (weight_gradient) {
        if (!place.pointwise) Unfold(place, place.channels, data + at, columns_.data());
        const float* columns = place.pointwise ? data + at : columns_.data();
        Gemm(rows, view_.k, pixels, {gradient, pixels, 1}, {columns, 1, pixels},
             weight_gradient + group * rows * view_.k, view_.k, true);
      }
      if (x_gradient == nullptr) continue;
      float* to = x_gradient->data<float>() + at;
      const float* w = weights + group * rows * view_.k;
      if (place.pointwise) {
        Gemm(view_.k, pixels, rows, {w, 1, view_.k}, {gradient, pixels, 1}, to, pixels, false);
        continue;
      }
      Gemm(view_.k, pixels, rows, {w, 1, view_.k}, {gradient, pixels, 1}, columns_.data(), pixels,
           false);
      Fold(place, place.channels, columns_.data(), to);
    }
  }
}

/// y = W^T x for every pixel of x, folded into the image. A group's weights are the matrix
/// [channels][outputs * taps].
void LayerMath::ForwardTransposed(const Windows& place, const float* x, const float* weights,
                                  const std::vector<float>& bias, float* y) {
  const int64_t pixels = place.pixels();
  const int64_t outputs = view_.rows_per_group();
  const int64_t wide = outputs * view_.taps;
  columns_.resize(static_cast<size_t>(wide * pixels));
  for (int64_t i = 0; i < place.batch * view_.groups; ++i) {
    const int64_t group = i % view_.groups;
    float* image = y + i * outputs * place.plane();
    for (int64_t row = 0; row < outputs; ++row) {
      const float b = bias.empty() ? 0 : bias[static_cast<size_t>(group * outputs + row)];
      std::fill_n(image + row * place.plane(), place.plane(), b);
    }
    Gemm(wide, pixels, place.channels, {weights + group * view_.group_stride, 1, wide},
         {x + i * place.channels * pixels, pixels, 1}, columns_.data(), pixels, false);
    Fold(place, outputs, columns_.data(), image);
  }
}

void LayerMath::BackwardTransposed(const Windows& place, const float* x, const float* weights,
                                   const float* dy, float* weight_gradient, float* bias_gradient,
                                   float* x_gradient) {
  const int64_t pixels = place.pixels();
  const int64_t outputs = view_.rows_per_group();
  const int64_t wide = outputs * view_.taps;
  columns_.resize(static_cast<size_t>(wide * pixels));
  for (int64_t i = 0; i < place.batch * view_.groups; ++i) {
    const int64_t group = i % view_.groups;
    const float* gradient = dy + i * outputs * place.plane();
    for (int64_t row = 0; row < outputs && bias_gradient; ++row) {
      float sum = 0;
      for (int64_t at = 0; at < place.plane(); ++at) sum += gradient[row * place.plane() + at];
      bias_gradient[group * outputs + row] += sum;
    }
    Unfold(place, outputs, gradient, columns_.data());
    const int64_t at = i * place.channels * pixels;
    if (weight_gradient) {
      Gemm(place.channels, wide, pixels, {x + at, pixels, 1}, {columns_.data(), 1, pixels},
           weight_gradient + group * view_.group_stride, wide, true);
    }
    if (x_gradient) {
      Gemm(place.channels, pixels, wide, {weights + group * view_.group_stride, wide, 1},
           {columns_.data(), pixels, 1}, x_gradient + at, pixels, false);
    }
  }
}

}  // namespace requant

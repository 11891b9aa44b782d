#include "quant/sim/layer.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "gradient/gemm.h"
#include "ops/convolution/convolve.h"
#include "ops/infer_util.h"
#include "quant/sim/gemm.h"

namespace requant {

using gradient::ConvolutionParams;
using gradient::ProductParams;
using gradient::Unfold;

namespace {

std::vector<const float*> Addresses(std::span<const Tensor> samples) {
  std::vector<const float*> out;
  for (const Tensor& sample : samples) out.push_back(sample.data<float>());
  return out;
}

std::vector<float*> Targets(std::span<Tensor> samples) {
  std::vector<float*> out;
  for (Tensor& sample : samples) out.push_back(sample.data<float>());
  return out;
}

void AddTo(float number, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] += number;
}

/// Calls body(first, count) for every run of samples of one shape.
template <typename Body>
void ForShapes(std::span<const Tensor> samples, const Body& body) {
  for (size_t first = 0, end = 1; first < samples.size(); first = end++) {
    while (end < samples.size() && samples[end].shape() == samples[first].shape()) ++end;
    body(first, end - first);
  }
}

}  // namespace

LayerMath::LayerMath(const Node& node, QuantRule rule, std::shared_ptr<BatchRunner> runner)
    : node_(node),
      rule_(rule),
      view_(ViewWeights(node, rule)),
      transposed_(node.Is(Op::kConvTranspose)),
      runner_(runner ? std::move(runner) : std::make_shared<BatchRunner>()) {}

gradient::Windows LayerMath::WindowsOf(const Tensor& x) const {
  Windows windows;
  const Shape& weights = node_.inputs[1]->constant.shape();
  const size_t spatial = weights.size() - 2;
  const int64_t channels = view_.k / view_.taps;
  windows.channels = transposed_ ? view_.rows_per_group() : channels;
  if (x.rank() != static_cast<int64_t>(weights.size()) || x.dim(1) != channels * view_.groups ||
      spatial > 3) {
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

std::vector<Tensor> LayerMath::Forward(std::span<const Tensor> x, const float* weights,
                                       const std::vector<float>& bias) {
  std::vector<Tensor> out;
  ForShapes(x, [&](size_t first, size_t count) {
    const Tensor& sample = x[first];
    Shape shape = sample.shape();
    if (rule_ == QuantRule::kConv) {
      shape = OutputShape(sample, WindowsOf(sample));
    } else if (shape.empty() || shape.back() != view_.k) {
      Fail(ErrorCode::kShapeMismatch, "the layer cannot take such rows", {.node = node_.name});
    } else {
      shape.back() = view_.rows;
    }
    const bool filled = rule_ == QuantRule::kConv;
    for (size_t i = 0; i < count; ++i) {
      out.push_back(filled ? Tensor::Unfilled(DType::kFloat32, shape)
                           : Tensor(DType::kFloat32, shape));
    }
    ForwardSame(x.subspan(first, count), weights, bias, std::span(out).subspan(first, count));
  });
  return out;
}

Tensor LayerMath::Forward(const Tensor& x, const float* weights, const std::vector<float>& bias) {
  return std::move(Forward(std::span(&x, 1), weights, bias)[0]);
}

ConvolutionParams LayerMath::Convolution(const Windows& windows, const float* weights) const {
  ConvolutionParams params;
  params.windows = windows;
  params.groups = view_.groups;
  params.rows = transposed_ ? view_.k / view_.taps : view_.rows_per_group();
  params.weights = weights;
  return params;
}

/// Runs a kernel that divides by samples.
void LayerMath::RunSamples(int number, void (*kernel)(const ConvolutionParams*),
                           const ConvolutionParams& params, int64_t samples, double work) {
  runner_->Run(number, kernel, params,
               {&ConvolutionParams::begin, &ConvolutionParams::end, samples}, work,
               [&](int64_t) { return ConvolutionScratch(params, params.windows.channels); });
}

/// The multiplications of a convolution of so many samples.
double LayerMath::Work(int64_t samples, const Tensor& x, const Tensor& y) const {
  const double numbers = static_cast<double>(samples * (transposed_ ? x : y).count());
  const int64_t each = transposed_ ? view_.rows_per_group() * view_.taps : view_.k;
  return numbers * static_cast<double>(each);
}

void LayerMath::ForwardSame(std::span<const Tensor> x, const float* weights,
                            const std::vector<float>& bias, std::span<Tensor> y) {
  if (rule_ != QuantRule::kConv) return ForwardProduct(x, weights, bias, y);
  const Windows windows = WindowsOf(x[0]);
  const std::vector<const float*> from = Addresses(x);
  const std::vector<float*> to = Targets(y);
  ConvolutionParams params = Convolution(windows, weights);
  params.filter_minimally = filters_minimally_ ? 1 : 0;
  const auto samples = static_cast<int64_t>(x.size());
  const double work = Work(samples, x[0], y[0]);
  if (transposed_) {
    params.dy = from.data();
    params.dx = to.data();
    RunSamples(gradient::kConvInputGradient, rq_conv_input_gradient, params, samples, work);
    for (size_t i = 0; i < y.size() && !bias.empty(); ++i) {
      float* plane = to[i];
      for (int64_t row = 0; row < windows.batch * view_.rows; ++row, plane += windows.plane()) {
        AddTo(bias[static_cast<size_t>(row % view_.rows)], windows.plane(), plane);
      }
    }
    return;
  }
  params.bias = bias.empty() ? nullptr : bias.data();
  params.x = from.data();
  params.y = to.data();
  RunSamples(gradient::kConvOutputs, rq_conv_outputs, params, samples, work);
}

/// Divides a product by samples, or by columns if the samples share their result.
void LayerMath::RunProduct(const ProductParams& params, int64_t samples, int64_t columns) {
  const double work =
      static_cast<double>(samples * params.rows) * static_cast<double>(columns * params.depth);
  const auto scratch = [&](int64_t) { return gradient::GemmScratch(params.rows); };
  const bool shared = samples > 1 && params.c[0] == params.c[1];
  const bool by_columns = shared || samples < columns / gradient::kGemmColumns;
  ProductParams whole = params;
  whole.end = samples;
  whole.column_end = columns;
  if (by_columns) {
    runner_->Run(gradient::kBatchProduct, rq_batch_product, whole,
                 {&ProductParams::column_begin, &ProductParams::column_end, columns}, work,
                 scratch);
  } else {
    runner_->Run(gradient::kBatchProduct, rq_batch_product, whole,
                 {&ProductParams::begin, &ProductParams::end, samples}, work, scratch);
  }
}

void LayerMath::ForwardProduct(std::span<const Tensor> x, const float* weights,
                               const std::vector<float>& bias, std::span<Tensor> y) {
  for (Tensor& sample : y) {
    auto* out = sample.data<float>();
    for (int64_t i = 0; i < sample.count() && !bias.empty(); ++i) {
      out[i] = bias[static_cast<size_t>(i % view_.rows)];
    }
  }
  const std::vector<const float*> from = Addresses(x), by(x.size(), weights);
  const std::vector<float*> to = Targets(y);
  ProductParams params;
  params.rows = view_.k == 0 ? 0 : x[0].count() / view_.k;
  params.depth = view_.k;
  params.a = from.data(), params.a_row_step = view_.k, params.a_column_step = 1;
  params.b = by.data(), params.b_row_step = view_.k_stride, params.b_column_step = view_.row_stride;
  params.c = to.data(), params.c_step = view_.rows;
  params.add = 1;
  RunProduct(params, static_cast<int64_t>(x.size()), view_.rows);
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

void LayerMath::Backward(std::span<const Tensor> x, const float* weights,
                         std::span<const Tensor> dy, float* weight_gradient, float* bias_gradient,
                         std::span<Tensor> dx) {
  for (size_t i = 0; i < dx.size(); ++i) dx[i] = Tensor::Unfilled(DType::kFloat32, x[i].shape());
  ForShapes(x, [&](size_t first, size_t count) {
    BackwardSame(x.subspan(first, count), weights, dy.subspan(first, count), weight_gradient,
                 bias_gradient, dx.empty() ? dx : dx.subspan(first, count));
  });
}

void LayerMath::Backward(const Tensor& x, const float* weights, const Tensor& dy,
                         float* weight_gradient, float* bias_gradient, Tensor* dx) {
  Backward(std::span(&x, 1), weights, std::span(&dy, 1), weight_gradient, bias_gradient,
           std::span(dx, dx ? 1 : 0));
}

void LayerMath::BackwardSame(std::span<const Tensor> x, const float* weights,
                             std::span<const Tensor> dy, float* weight_gradient,
                             float* bias_gradient, std::span<Tensor> dx) {
  if (rule_ != QuantRule::kConv) {
    return BackwardProduct(x, weights, dy, weight_gradient, bias_gradient, dx);
  }
  const Windows windows = WindowsOf(x[0]);
  const std::vector<const float*> from = Addresses(x), gradients = Addresses(dy);
  const std::vector<float*> to = Targets(dx);
  const int64_t pixels = transposed_ ? windows.plane() : windows.pixels();
  for (size_t sample = 0; sample < x.size() && bias_gradient; ++sample) {
    const float* gradient = gradients[sample];
    for (int64_t row = 0; row < windows.batch * view_.rows; ++row, gradient += pixels) {
      float sum = 0;
      for (int64_t i = 0; i < pixels; ++i) sum += gradient[i];
      bias_gradient[row % view_.rows] += sum;
    }
  }
  const auto samples = static_cast<int64_t>(x.size());
  const double work = Work(samples, x[0], dy[0]);
  ConvolutionParams params = Convolution(windows, weights);
  params.filter_minimally = 1;
  params.samples = samples;
  params.dw = weight_gradient;
  // The outputs of a ConvTranspose are the inputs of the convolution that it reverses.
  params.x = (transposed_ ? gradients : from).data();
  params.dy = (transposed_ ? from : gradients).data();
  (transposed_ ? params.y : params.dx) = to.data();
  if (weight_gradient) {
    runner_->Run(
        gradient::kConvWeightGradient, rq_conv_weight_gradient, params,
        {&ConvolutionParams::begin, &ConvolutionParams::end, windows.channels * view_.groups}, work,
        [&](int64_t channels) {
          return ConvolutionScratch(params, std::min(channels, windows.channels));
        });
  }
  if (dx.empty()) return;
  if (transposed_) {
    RunSamples(gradient::kConvOutputs, rq_conv_outputs, params, samples, work);
  } else {
    RunSamples(gradient::kConvInputGradient, rq_conv_input_gradient, params, samples, work);
  }
}

void LayerMath::BackwardProduct(std::span<const Tensor> x, const float* weights,
                                std::span<const Tensor> dy, float* weight_gradient,
                                float* bias_gradient, std::span<Tensor> dx) {
  const int64_t count = view_.k == 0 ? 0 : x[0].count() / view_.k;
  const auto samples = static_cast<int64_t>(x.size());
  const std::vector<const float*> from = Addresses(x), gradients = Addresses(dy);
  for (const float* gradient : gradients) {
    for (int64_t i = 0; i < count * view_.rows && bias_gradient; ++i) {
      bias_gradient[i % view_.rows] += gradient[i];
    }
  }
  if (weight_gradient) {
    const std::vector<float*> to(x.size(), weight_gradient);
    ProductParams params;
    params.depth = count;
    params.c = to.data();
    params.add = 1;
    if (view_.k_stride == 1) {  // [rows][k]
      params.rows = view_.rows;
      params.a = gradients.data(), params.a_row_step = 1, params.a_column_step = view_.rows;
      params.b = from.data(), params.b_row_step = view_.k, params.b_column_step = 1;
      params.c_step = view_.row_stride;
      RunProduct(params, samples, view_.k);
    } else {  // [k][rows]
      params.rows = view_.k;
      params.a = from.data(), params.a_row_step = 1, params.a_column_step = view_.k;
      params.b = gradients.data(), params.b_row_step = view_.rows, params.b_column_step = 1;
      params.c_step = view_.k_stride;
      RunProduct(params, samples, view_.rows);
    }
  }
  if (dx.empty()) return;
  const std::vector<const float*> by(x.size(), weights);
  const std::vector<float*> to = Targets(dx);
  ProductParams params;
  params.rows = count;
  params.depth = view_.rows;
  params.a = gradients.data(), params.a_row_step = view_.rows, params.a_column_step = 1;
  params.b = by.data(), params.b_row_step = view_.row_stride, params.b_column_step = view_.k_stride;
  params.c = to.data(), params.c_step = view_.k;
  RunProduct(params, samples, view_.k);
}

}  // namespace requant

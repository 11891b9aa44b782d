// Computes a layer with a weight matrix (HasWeightMatrix) as matrix products, forward and backward:
// Conv and ConvTranspose of any group, stride and dilation, and Gemm and MatMul with constant
// weights.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gradient/kernel.h"
#include "ops/op.h"
#include "quant/sim/batch_runner.h"
#include "quant/sim/gemm.h"
#include "quant/weights/weights.h"

namespace requant {

/// The inputs and outputs of one group of channels of an image: the columns of `x` [k][pixels] and
/// of `y` [rows of a group][pixels] belong together.
struct LayerPixels {
  int64_t group, pixels;
  MatrixView x, y;
};

class LayerMath {
 public:
  /// Layers may share a runner; without one, a layer computes on one thread. Throws kInternal for a
  /// node without a weight matrix.
  LayerMath(const Node& node, QuantRule rule, std::shared_ptr<BatchRunner> runner = nullptr);

  /// From now on, Forward() may compute convolutions with fewer multiplications (Winograd's
  /// filtering), with other rounding errors. Without this call, sums of integers times a scale are
  /// exact.
  void FilterMinimally() { filters_minimally_ = true; }

  const WeightMatrix& view() const { return view_; }
  int64_t weight_count() const { return view_.rows * view_.k; }
  /// Runs the layer on every sample of a batch. `weights` are ordered as in the model; `bias` has
  /// one number per row, or none.
  std::vector<Tensor> Forward(std::span<const Tensor> x, const float* weights,
                              const std::vector<float>& bias);
  /// Runs the layer on one sample.
  Tensor Forward(const Tensor& x, const float* weights, const std::vector<float>& bias);
  /// Adds to weight_gradient and bias_gradient (unless nullptr) and writes the gradient by every
  /// sample (unless `dx` is empty).
  void Backward(std::span<const Tensor> x, const float* weights, std::span<const Tensor> dy,
                float* weight_gradient, float* bias_gradient, std::span<Tensor> dx);
  /// Computes the gradients of one sample; dx may be null.
  void Backward(const Tensor& x, const float* weights, const Tensor& dy, float* weight_gradient,
                float* bias_gradient, Tensor* dx);
  /// Visits the inputs and outputs of a layer that is no ConvTranspose as the columns of matrices.
  /// `y` has the shape of the layer's output.
  void VisitPixels(const Tensor& x, const Tensor& y,
                   const std::function<void(const LayerPixels&)>& visit);

 private:
  using Windows = gradient::Windows;

  /// The windows of the layer; a ConvTranspose has those of the convolution whose input it writes.
  Windows WindowsOf(const Tensor& x) const;
  /// These get samples of one shape.
  void ForwardSame(std::span<const Tensor> x, const float* weights, const std::vector<float>& bias,
                   std::span<Tensor> y);
  void BackwardSame(std::span<const Tensor> x, const float* weights, std::span<const Tensor> dy,
                    float* weight_gradient, float* bias_gradient, std::span<Tensor> dx);
  void ForwardProduct(std::span<const Tensor> x, const float* weights,
                      const std::vector<float>& bias, std::span<Tensor> y);
  void BackwardProduct(std::span<const Tensor> x, const float* weights, std::span<const Tensor> dy,
                       float* weight_gradient, float* bias_gradient, std::span<Tensor> dx);
  void RunProduct(const gradient::ProductParams& params, int64_t samples, int64_t columns);
  gradient::ConvolutionParams Convolution(const Windows& windows, const float* weights) const;
  void RunSamples(int number, void (*kernel)(const gradient::ConvolutionParams*),
                  const gradient::ConvolutionParams& params, int64_t samples, double work);
  double Work(int64_t samples, const Tensor& x, const Tensor& y) const;
  Shape OutputShape(const Tensor& x, const Windows& windows) const;

  const Node& node_;
  QuantRule rule_;
  WeightMatrix view_;
  bool transposed_;
  bool filters_minimally_ = false;
  std::shared_ptr<BatchRunner> runner_;
  std::vector<float> columns_;
};

}  // namespace requant

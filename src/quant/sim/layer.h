// Computes a layer with a weight matrix (HasWeightMatrix) as matrix products, forward and backward:
// Conv and ConvTranspose of any group, stride and dilation, and Gemm and MatMul with constant
// weights.
#pragma once

#include <functional>
#include <vector>

#include "ops/op.h"
#include "quant/sim/gemm.h"
#include "quant/sim/windows.h"
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
  /// Throws kInternal for a node without a weight matrix.
  LayerMath(const Node& node, QuantRule rule);

  const WeightMatrix& view() const { return view_; }
  int64_t weight_count() const { return view_.rows * view_.k; }
  /// Runs the layer. `weights` are ordered as in the model; `bias` has one number per row, or none.
  Tensor Forward(const Tensor& x, const float* weights, const std::vector<float>& bias);
  /// Adds to weight_gradient and bias_gradient (unless nullptr) and writes x_gradient (unless
  /// nullptr).
  void Backward(const Tensor& x, const float* weights, const Tensor& y_gradient,
                float* weight_gradient, float* bias_gradient, Tensor* x_gradient);
  /// Visits the inputs and outputs of a layer that is no ConvTranspose as the columns of matrices.
  /// `y` has the shape of the layer's output.
  void VisitPixels(const Tensor& x, const Tensor& y,
                   const std::function<void(const LayerPixels&)>& visit);

 private:
  /// The windows of the layer; a ConvTranspose has those of the convolution whose input it writes.
  Windows WindowsOf(const Tensor& x) const;
  void ForwardTransposed(const Windows& windows, const float* x, const float* weights,
                         const std::vector<float>& bias, float* y);
  void BackwardTransposed(const Windows& windows, const float* x, const float* weights,
                          const float* dy, float* weight_gradient, float* bias_gradient,
                          float* x_gradient);
  Shape OutputShape(const Tensor& x, const Windows& windows) const;

  const Node& node_;
  QuantRule rule_;
  WeightMatrix view_;
  bool transposed_;
  std::vector<float> columns_;
};

}  // namespace requant

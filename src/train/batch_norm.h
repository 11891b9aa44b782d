// Batch normalization around a layer whose weights are folded and fake-quantized during training
// (Krishnamoorthi 2018, arXiv 1806.08342, section 3.2.2):
//   W' = gamma / sigma * W                    the weights that are fake-quantized; sigma of the
//                                             running variance
//   u  = conv(x, fq(W')) * sigma / gamma      the output of the unfolded layer
//   y  = gamma * (u - mu_B) / sigma_B + beta  mu_B, sigma_B of the batch
// The deployed layer does not depend on the batch's statistics:
//   y  = conv(x, fq(W')) + b',   b' = beta - gamma * mu / sigma.
#pragma once

#include <span>
#include <vector>

#include "quant/observers/state_bytes.h"
#include "tensor/tensor.h"

namespace requant {

/// Mean and variance of each channel.
struct ChannelMoments {
  std::vector<double> mean, variance;
};

/// The moments of tensors [n, channels, ...].
ChannelMoments MeasureChannels(std::span<const Tensor> batch);
/// The number of elements in each channel of the batch.
int64_t ElementsOfChannel(std::span<const Tensor> batch);

class BatchNorm {
 public:
  /// Starts with the mean and deviation of the float network's outputs: the layer keeps its
  /// function, and shifts caused by quantization disappear.
  explicit BatchNorm(const ChannelMoments& wanted);
  /// Averages the moments of one more batch into those of the constructor. Call it before training.
  void Measure(const ChannelMoments& wanted);
  /// While measuring, the running statistics are the mean of all batches since measuring began;
  /// otherwise a moving average. A new object measures.
  void SetMeasuring(bool measuring);

  std::vector<float> gamma, beta;  // learned; gamma > 0
  std::vector<float> gamma_gradient, beta_gradient;

  /// gamma / sigma of a channel, the factor of its weights.
  float Factor(size_t channel) const;
  /// b' of a channel.
  float Bias(size_t channel) const;

  /// `batch` is conv(x, fq(W')) of every sample. Updates the running statistics.
  std::vector<Tensor> Forward(std::span<const Tensor> batch);
  /// d loss / d batch, from d loss / d y. `batch` as in Forward().
  std::vector<Tensor> Backward(std::span<const Tensor> batch, std::span<const Tensor> dy);
  /// Keeps gamma positive after an update.
  void Limit();
  /// Writes or reads what was measured and learned.
  void Fields(StateBytes& state);

 private:
  void Start();

  std::vector<float> least_gamma_;
  ChannelMoments wanted_;
  ChannelMoments running_;  // of u
  ChannelMoments now_;      // of the batch
  std::vector<double> inverse_sigma_;
  int64_t wanted_batches_ = 1;
  bool measuring_ = true;
  int64_t measured_ = 0;  // number of batches
};

}  // namespace requant

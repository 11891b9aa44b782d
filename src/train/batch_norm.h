// Batch normalization around a layer whose weights are folded and fake-quantized while it is
// trained (Krishnamoorthi 2018, arXiv 1806.08342, section 3.2.2):
//   W' = gamma / sigma * W                       what is fake-quantized; sigma of the running
//   variance u  = conv(x, fq(W')) * sigma / gamma         what the unfolded layer would compute y
//   = gamma * (u - mu_B) / sigma_B + beta     mu_B, sigma_B of the batch
// and without the batch's statistics, which is what is deployed,
//   y  = conv(x, fq(W')) + b',   b' = beta - gamma * mu / sigma.
#pragma once

#include <span>
#include <vector>

#include "tensor/tensor.h"

namespace requant {

/// A number for each channel.
struct ChannelMoments {
  std::vector<double> mean, variance;
};

/// Of tensors [n, channels, ...].
ChannelMoments MeasureChannels(std::span<const Tensor> batch);
/// Elements of each channel.
int64_t ElementsOfChannel(std::span<const Tensor> batch);

class BatchNorm {
 public:
  /// Starts with the outputs' mean and deviation as they are in the float network, so that the
  /// layer computes what it did, and the shifts that quantization makes are gone.
  explicit BatchNorm(const ChannelMoments& wanted);
  /// The same of one more batch: the mean of all of them. Before anything is learned.
  void Measure(const ChannelMoments& wanted);
  /// While measuring, which it does from the start, the running statistics are the mean of all
  /// batches since that began; else they follow the latest.
  void SetMeasuring(bool measuring);

  std::vector<float> gamma, beta;  // learned; gamma > 0
  std::vector<float> gamma_gradient, beta_gradient;

  /// gamma / sigma of a channel: what its weights are multiplied with.
  float Factor(size_t channel) const;
  /// b' of a channel.
  float Bias(size_t channel) const;

  /// `batch`: conv(x, fq(W')) of every sample. Updates the running statistics.
  std::vector<Tensor> Forward(std::span<const Tensor> batch);
  /// d loss / d batch, from d loss / d y. `batch` as in Forward().
  std::vector<Tensor> Backward(std::span<const Tensor> batch, std::span<const Tensor> dy);
  /// gamma stays positive after an update.
  void Limit();

 private:
  void Start();

  std::vector<float> least_gamma_;
  ChannelMoments wanted_;
  ChannelMoments running_;  // of u
  ChannelMoments now_;      // of the batch
  std::vector<double> inverse_sigma_;
  int64_t wanted_batches_ = 1;
  bool measuring_ = true;
  int64_t measured_ = 0;  // batches
};

}  // namespace requant

// Batch normalization around a layer whose weights are folded and fake-quantized during training
// (Krishnamoorthi 2018, arXiv 1806.08342, section 3.2.2):
//   W' = gamma / sigma * W                    the weights that are fake-quantized; sigma of the
//                                             running variance
//   u  = conv(x, fq(W')) * sigma / gamma      the output of the unfolded layer
//   y  = gamma * (u - mu_B) / sigma_B + beta  mu_B, sigma_B of the batch
// The deployed layer does not depend on the batch's statistics:
//   y  = conv(x, fq(W')) + b',   b' = beta - gamma * mu / sigma.
//
// Folding by the batch's own statistics (the same section's naive folding, as OneFlow trains) costs
// a second convolution, and the gradient passes through the statistics as well:
//   u  = conv(x, W)                           mu_B, sigma_B are those of u
//   y  = conv(x, fq(gamma / sigma_B * W)) + beta - gamma * mu_B / sigma_B
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "quant/observers/state_bytes.h"
#include "quant/sim/batch_runner.h"
#include "tensor/tensor.h"

namespace requant {

/// Mean and variance of each channel.
struct ChannelMoments {
  std::vector<double> mean, variance;
};

/// The moments of tensors [n, channels, ...].
ChannelMoments MeasureChannels(BatchRunner& runner, std::span<const Tensor> batch);
/// The number of elements in each channel of the batch.
int64_t ElementsOfChannel(std::span<const Tensor> batch);

class BatchNorm {
 public:
  /// Starts with the mean and deviation of the float network's outputs: the layer keeps its
  /// function, and shifts caused by quantization disappear.
  BatchNorm(const ChannelMoments& wanted, std::shared_ptr<BatchRunner> runner);
  /// Averages the moments of one more batch into those of the constructor. Call it before training.
  void Measure(const ChannelMoments& wanted);
  /// While measuring, the running statistics are the mean of all batches since measuring began;
  /// otherwise a moving average. A new object measures.
  void SetMeasuring(bool measuring);

  std::vector<float> gamma, beta;  // learned; gamma > 0
  std::vector<float> gamma_gradient, beta_gradient;

  /// gamma / sigma of a channel, the factor of its weights: of the running statistics, or between
  /// FollowBatch() and EndBatch() of the batch.
  float Factor(size_t channel) const;
  /// b' of a channel, of the same statistics.
  float Bias(size_t channel) const;

  /// `batch` is conv(x, fq(W')) of every sample. Updates the running statistics.
  std::vector<Tensor> Forward(std::span<const Tensor> batch);
  /// d loss / d batch, from d loss / d y. `batch` as in Forward().
  std::vector<Tensor> Backward(std::span<const Tensor> batch, std::span<const Tensor> dy);
  /// Folding by the batch: takes u of every sample and updates the running statistics.
  void FollowBatch(std::span<const Tensor> u);
  void EndBatch() { follows_ = false; }
  /// d loss / d u, from d loss / d Factor and d loss / d Bias of each channel; adds to the
  /// gradients of gamma and beta. `u` as in FollowBatch().
  std::vector<Tensor> StatisticsBackward(std::span<const Tensor> u,
                                         const std::vector<double>& of_factor,
                                         const std::vector<double>& of_bias);
  /// Keeps gamma positive after an update.
  void Limit();
  /// Writes or reads what was measured and learned.
  void Fields(StateBytes& state);

 private:
  void Start();
  /// Moves the running statistics of a channel towards those of a batch.
  void Average(size_t channel, double share, double mean, double variance);
  /// The share of one more batch in the running statistics.
  double CountBatch();

  std::shared_ptr<BatchRunner> runner_;
  std::vector<float> least_gamma_;
  ChannelMoments wanted_;
  ChannelMoments running_;  // of u
  ChannelMoments now_;      // of the batch
  std::vector<double> inverse_sigma_;
  int64_t wanted_batches_ = 1;
  bool measuring_ = true;
  int64_t measured_ = 0;  // number of batches
  bool follows_ = false;  // between FollowBatch() and EndBatch()
};

}  // namespace requant

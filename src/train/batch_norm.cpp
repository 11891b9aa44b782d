#include "train/batch_norm.h"

#include <algorithm>
#include <cmath>

namespace requant {
namespace {

constexpr double kEpsilon = 1e-5;  // ONNX's and PyTorch's default
// share of the batch in the running statistics; PyTorch's default
constexpr double kMomentum = 0.1;

int64_t Channels(const Tensor& tensor) { return tensor.dim(1); }
int64_t Inner(const Tensor& tensor) {
  const int64_t outer = tensor.dim(0) * tensor.dim(1);
  return outer == 0 ? 0 : tensor.count() / outer;
}

/// Calls `row(channel, offset, count)` for every run of elements of one channel.
template <typename Row>
void ForRows(const Tensor& tensor, const Row& row) {
  const int64_t channels = Channels(tensor), inner = Inner(tensor);
  for (int64_t i = 0; i < tensor.dim(0) * channels; ++i) {
    row(static_cast<size_t>(i % channels), i * inner, inner);
  }
}

}  // namespace

int64_t ElementsOfChannel(std::span<const Tensor> batch) {
  int64_t count = 0;
  for (const Tensor& tensor : batch) count += tensor.dim(0) * Inner(tensor);
  return count;
}

ChannelMoments MeasureChannels(std::span<const Tensor> batch) {
  const auto channels = static_cast<size_t>(Channels(batch[0]));
  ChannelMoments out{std::vector<double>(channels), std::vector<double>(channels)};
  const double count = static_cast<double>(std::max<int64_t>(1, ElementsOfChannel(batch)));
  for (const Tensor& tensor : batch) {
    const float* x = tensor.data<float>();
    ForRows(tensor, [&](size_t channel, int64_t offset, int64_t n) {
      float sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += x[offset + i];
      out.mean[channel] += static_cast<double>(sum) / count;
    });
  }
  for (const Tensor& tensor : batch) {
    const float* x = tensor.data<float>();
    ForRows(tensor, [&](size_t channel, int64_t offset, int64_t n) {
      const auto mean = static_cast<float>(out.mean[channel]);
      float sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += (x[offset + i] - mean) * (x[offset + i] - mean);
      out.variance[channel] += static_cast<double>(sum) / count;
    });
  }
  return out;
}

BatchNorm::BatchNorm(const ChannelMoments& wanted)
    : gamma_gradient(wanted.mean.size()),
      beta_gradient(wanted.mean.size()),
      wanted_(wanted),
      running_(wanted) {
  Start();
}

void BatchNorm::Measure(const ChannelMoments& wanted) {
  ++wanted_batches_;
  const double share = 1 / static_cast<double>(wanted_batches_);
  for (size_t channel = 0; channel < wanted.mean.size(); ++channel) {
    wanted_.mean[channel] += share * (wanted.mean[channel] - wanted_.mean[channel]);
    wanted_.variance[channel] += share * (wanted.variance[channel] - wanted_.variance[channel]);
  }
  Start();
}

void BatchNorm::SetMeasuring(bool measuring) {
  measuring_ = measuring;
  measured_ = 0;
}

void BatchNorm::Start() {
  gamma.clear();
  beta.clear();
  least_gamma_.clear();
  for (size_t channel = 0; channel < wanted_.mean.size(); ++channel) {
    gamma.push_back(static_cast<float>(std::sqrt(wanted_.variance[channel] + kEpsilon)));
    beta.push_back(static_cast<float>(wanted_.mean[channel]));
    least_gamma_.push_back(1e-3f * gamma.back());
  }
}

float BatchNorm::Factor(size_t channel) const {
  if (follows_)
    return static_cast<float>(static_cast<double>(gamma[channel]) * inverse_sigma_[channel]);
  return gamma[channel] / static_cast<float>(std::sqrt(running_.variance[channel] + kEpsilon));
}

float BatchNorm::Bias(size_t channel) const {
  const ChannelMoments& moments = follows_ ? now_ : running_;
  return beta[channel] - Factor(channel) * static_cast<float>(moments.mean[channel]);
}

double BatchNorm::CountBatch() {
  return measuring_ ? 1 / static_cast<double>(++measured_) : kMomentum;
}

void BatchNorm::Average(size_t channel, double share, double mean, double variance) {
  running_.mean[channel] += share * (mean - running_.mean[channel]);
  running_.variance[channel] += share * (variance - running_.variance[channel]);
}

std::vector<Tensor> BatchNorm::Forward(std::span<const Tensor> batch) {
  now_ = MeasureChannels(batch);
  const size_t channels = gamma.size();
  inverse_sigma_.resize(channels);
  // The running statistics are those of u = batch / factor. While measuring, the first batch
  // replaces the statistics of the float network, for which the factors are 1.
  const double share = CountBatch();
  const auto count = static_cast<double>(ElementsOfChannel(batch));
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  for (size_t channel = 0; channel < channels; ++channel) {
    const auto factor = static_cast<double>(Factor(channel));
    const double variance = now_.variance[channel];
    inverse_sigma_[channel] = 1 / std::sqrt(variance + kEpsilon * factor * factor);
    Average(channel, share, now_.mean[channel] / factor, variance * unbiased / (factor * factor));
  }
  std::vector<Tensor> out;
  for (const Tensor& x : batch) {
    Tensor& y = out.emplace_back(DType::kFloat32, x.shape());
    const float* from = x.data<float>();
    auto* to = y.data<float>();
    ForRows(x, [&](size_t channel, int64_t offset, int64_t n) {
      const auto mean = static_cast<float>(now_.mean[channel]);
      const float slope = gamma[channel] * static_cast<float>(inverse_sigma_[channel]);
      for (int64_t i = offset; i < offset + n; ++i)
        to[i] = (from[i] - mean) * slope + beta[channel];
    });
  }
  return out;
}

std::vector<Tensor> BatchNorm::Backward(std::span<const Tensor> batch, std::span<const Tensor> dy) {
  const size_t channels = gamma.size();
  // sums of dy, and of dy times the normalized value
  std::vector<double> sums(channels), products(channels);
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    const float* x = batch[sample].data<float>();
    const float* gradient = dy[sample].data<float>();
    ForRows(batch[sample], [&](size_t channel, int64_t offset, int64_t n) {
      const auto mean = static_cast<float>(now_.mean[channel]);
      float sum = 0, product = 0;
      for (int64_t i = offset; i < offset + n; ++i) {
        sum += gradient[i];
        product += gradient[i] * (x[i] - mean);
      }
      sums[channel] += static_cast<double>(sum);
      products[channel] += static_cast<double>(product) * inverse_sigma_[channel];
    });
  }
  for (size_t channel = 0; channel < channels; ++channel) {
    beta_gradient[channel] += static_cast<float>(sums[channel]);
    gamma_gradient[channel] += static_cast<float>(products[channel]);
  }
  const auto count = static_cast<double>(ElementsOfChannel(batch));
  std::vector<Tensor> out;
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    const Tensor& x = batch[sample];
    Tensor& dx = out.emplace_back(DType::kFloat32, x.shape());
    const float *from = x.data<float>(), *gradient = dy[sample].data<float>();
    auto* to = dx.data<float>();
    ForRows(x, [&](size_t channel, int64_t offset, int64_t n) {
      const auto mean = static_cast<float>(now_.mean[channel]);
      const auto inverse = static_cast<float>(inverse_sigma_[channel]);
      const auto shift = static_cast<float>(sums[channel] / count);
      const auto slope = static_cast<float>(products[channel] / count) * inverse;
      const float factor = gamma[channel] * inverse;
      for (int64_t i = offset; i < offset + n; ++i) {
        to[i] = factor * (gradient[i] - shift - (from[i] - mean) * slope);
      }
    });
  }
  return out;
}

void BatchNorm::FollowBatch(std::span<const Tensor> u) {
  now_ = MeasureChannels(u);
  const double share = CountBatch();
  const auto count = static_cast<double>(ElementsOfChannel(u));
  const double unbiased = count > 1 ? count / (count - 1) : 1;
  inverse_sigma_.resize(gamma.size());
  for (size_t channel = 0; channel < gamma.size(); ++channel) {
    inverse_sigma_[channel] = 1 / std::sqrt(now_.variance[channel] + kEpsilon);
    Average(channel, share, now_.mean[channel], now_.variance[channel] * unbiased);
  }
  follows_ = true;
}

std::vector<Tensor> BatchNorm::StatisticsBackward(std::span<const Tensor> u,
                                                  const std::vector<double>& of_factor,
                                                  const std::vector<double>& of_bias) {
  const size_t channels = gamma.size();
  const auto count = static_cast<double>(ElementsOfChannel(u));
  // u moves the mean by 1 / n, and the variance by 2 (u - mean) / n.
  std::vector<double> by_mean(channels), by_variance(channels);
  for (size_t channel = 0; channel < channels; ++channel) {
    const auto scale = static_cast<double>(gamma[channel]);
    const double inverse = inverse_sigma_[channel], mean = now_.mean[channel];
    // The bias holds the factor as well: beta - factor * mean.
    const double factor = of_factor[channel] - mean * of_bias[channel];
    gamma_gradient[channel] += static_cast<float>(factor * inverse);
    beta_gradient[channel] += static_cast<float>(of_bias[channel]);
    by_mean[channel] = -scale * inverse * of_bias[channel] / count;
    by_variance[channel] = -scale * inverse * inverse * inverse * factor / count;
  }
  std::vector<Tensor> out;
  for (const Tensor& x : u) {
    Tensor& dx = out.emplace_back(DType::kFloat32, x.shape());
    const float* from = x.data<float>();
    auto* to = dx.data<float>();
    ForRows(x, [&](size_t channel, int64_t offset, int64_t n) {
      const auto mean = static_cast<float>(now_.mean[channel]);
      const auto shift = static_cast<float>(by_mean[channel]);
      const auto slope = static_cast<float>(by_variance[channel]);
      for (int64_t i = offset; i < offset + n; ++i) to[i] = shift + (from[i] - mean) * slope;
    });
  }
  return out;
}

void BatchNorm::Fields(StateBytes& state) {
  for (std::vector<float>* list : {&gamma, &beta, &least_gamma_}) state.SameList(*list);
  for (ChannelMoments* moments : {&wanted_, &running_}) {
    state.SameList(moments->mean);
    state.SameList(moments->variance);
  }
  state.Value(wanted_batches_);
  state.Flag(measuring_);
  state.Value(measured_);
}

void BatchNorm::Limit() {
  for (size_t channel = 0; channel < gamma.size(); ++channel) {
    gamma[channel] = std::max(gamma[channel], least_gamma_[channel]);
  }
}

}  // namespace requant

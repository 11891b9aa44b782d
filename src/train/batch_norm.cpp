#include "train/batch_norm.h"

#include <algorithm>
#include <cmath>

#include "gradient/kernel.h"

namespace requant {

using gradient::ChannelFunction;
using gradient::ChannelParams;
using gradient::ChannelSample;

namespace {

constexpr double kEpsilon = 1e-5;  // ONNX's and PyTorch's default
// share of the batch in the running statistics; PyTorch's default
constexpr double kMomentum = 0.1;

int64_t Channels(const Tensor& tensor) { return tensor.dim(1); }
int64_t Inner(const Tensor& tensor) {
  const int64_t outer = tensor.dim(0) * tensor.dim(1);
  return outer == 0 ? 0 : tensor.count() / outer;
}

/// What the kernels read and write, by sample. `dy` is empty where there is none.
class Rows {
 public:
  explicit Rows(std::span<const Tensor> batch, std::span<const Tensor> dy = {}) {
    for (size_t at = 0; at < batch.size(); ++at) {
      ChannelSample& sample = samples_.emplace_back();
      sample.x = batch[at].data<float>();
      if (!dy.empty()) sample.dy = dy[at].data<float>();
      sample.inner = Inner(batch[at]);
      sample.rows = sample.inner == 0 ? 0 : batch[at].dim(0) * Channels(batch[at]);
      rows_ += static_cast<size_t>(sample.rows);
      work_ += static_cast<double>(batch[at].count());
    }
    params_.channels = std::max<int64_t>(1, Channels(batch[0]));
    params_.samples = samples_.data();
    params_.end = static_cast<int64_t>(samples_.size());
  }

  ChannelParams& params() { return params_; }

  /// Makes what a function writes, tensors of the shapes of the batch.
  std::vector<Tensor> MakeOutputs(std::span<const Tensor> batch) {
    std::vector<Tensor> out;
    for (size_t at = 0; at < batch.size(); ++at) {
      out.push_back(Tensor::Unfilled(DType::kFloat32, batch[at].shape()));
      samples_[at].y = out.back().data<float>();
    }
    return out;
  }

  /// Computes sums of rows.
  void Sum(BatchRunner& runner, ChannelFunction function) {
    numbers_.resize(2 * rows_);
    float* sums = numbers_.data();
    for (ChannelSample& sample : samples_) {
      sample.sums = sums;
      sample.products = sums + rows_;
      sums += sample.rows;
    }
    Run(runner, function);
  }

  /// Calls each(channel, sum, product, elements of the row) for all rows, in their order.
  template <typename Each>
  void ForSums(const Each& each) const {
    for (const ChannelSample& sample : samples_) {
      for (int64_t row = 0; row < sample.rows; ++row) {
        each(static_cast<size_t>(row % params_.channels), static_cast<double>(sample.sums[row]),
             static_cast<double>(sample.products[row]), static_cast<double>(sample.inner));
      }
    }
  }

  /// Computes one of the functions.
  void Run(BatchRunner& runner, ChannelFunction function) {
    params_.function = function;
    runner.Run(gradient::kChannels, rq_channels, params_,
               {&ChannelParams::begin, &ChannelParams::end, params_.end}, work_,
               [](int64_t) { return 0; });
  }

 private:
  std::vector<ChannelSample> samples_;
  ChannelParams params_;
  std::vector<float> numbers_;
  size_t rows_ = 0;
  double work_ = 0;
};

std::vector<float> ToFloats(const std::vector<double>& numbers) {
  return {numbers.begin(), numbers.end()};
}

}  // namespace

int64_t ElementsOfChannel(std::span<const Tensor> batch) {
  int64_t count = 0;
  for (const Tensor& tensor : batch) count += tensor.dim(0) * Inner(tensor);
  return count;
}

ChannelMoments MeasureChannels(BatchRunner& runner, std::span<const Tensor> batch) {
  const auto channels = static_cast<size_t>(Channels(batch[0]));
  ChannelMoments out{std::vector<double>(channels), std::vector<double>(channels)};
  const double count = static_cast<double>(std::max<int64_t>(1, ElementsOfChannel(batch)));
  Rows rows(batch);
  rows.Sum(runner, ChannelFunction::kMoments);
  rows.ForSums([&](size_t channel, double sum, double, double) { out.mean[channel] += sum; });
  for (double& mean : out.mean) mean /= count;
  // The squares are those around the row's own mean (Chan, Golub, LeVeque 1979).
  rows.ForSums([&](size_t channel, double sum, double squares, double n) {
    const double off = sum / n - out.mean[channel];
    out.variance[channel] += squares + n * off * off;
  });
  for (double& variance : out.variance) variance /= count;
  return out;
}

BatchNorm::BatchNorm(const ChannelMoments& wanted, std::shared_ptr<BatchRunner> runner)
    : gamma_gradient(wanted.mean.size()),
      beta_gradient(wanted.mean.size()),
      runner_(std::move(runner)),
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
  now_ = MeasureChannels(*runner_, batch);
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
  std::vector<float> factors;
  for (size_t channel = 0; channel < channels; ++channel) {
    factors.push_back(gamma[channel] * static_cast<float>(inverse_sigma_[channel]));
  }
  const std::vector<float> means = ToFloats(now_.mean);
  Rows rows(batch);
  rows.params().mean = means.data();
  rows.params().factor = factors.data();
  rows.params().shift = beta.data();
  std::vector<Tensor> out = rows.MakeOutputs(batch);
  rows.Run(*runner_, ChannelFunction::kOutputs);
  return out;
}

std::vector<Tensor> BatchNorm::Backward(std::span<const Tensor> batch, std::span<const Tensor> dy) {
  const size_t channels = gamma.size();
  const std::vector<float> means = ToFloats(now_.mean);
  Rows rows(batch, dy);
  rows.params().mean = means.data();
  rows.Sum(*runner_, ChannelFunction::kProducts);
  // sums of dy, and of dy times the normalized value
  std::vector<double> sums(channels), products(channels);
  rows.ForSums([&](size_t channel, double sum, double product, double) {
    sums[channel] += sum;
    products[channel] += product * inverse_sigma_[channel];
  });
  const auto count = static_cast<double>(ElementsOfChannel(batch));
  std::vector<float> factors, shifts, slopes;
  for (size_t channel = 0; channel < channels; ++channel) {
    beta_gradient[channel] += static_cast<float>(sums[channel]);
    gamma_gradient[channel] += static_cast<float>(products[channel]);
    const auto inverse = static_cast<float>(inverse_sigma_[channel]);
    factors.push_back(gamma[channel] * inverse);
    shifts.push_back(static_cast<float>(sums[channel] / count));
    slopes.push_back(static_cast<float>(products[channel] / count) * inverse);
  }
  rows.params().factor = factors.data();
  rows.params().shift = shifts.data();
  rows.params().slope = slopes.data();
  std::vector<Tensor> out = rows.MakeOutputs(batch);
  rows.Run(*runner_, ChannelFunction::kGradient);
  return out;
}

void BatchNorm::FollowBatch(std::span<const Tensor> u) {
  now_ = MeasureChannels(*runner_, u);
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
  const std::vector<float> means = ToFloats(now_.mean), slopes = ToFloats(by_variance);
  const std::vector<float> shifts = ToFloats(by_mean);
  Rows rows(u);
  rows.params().mean = means.data();
  rows.params().factor = slopes.data();
  rows.params().shift = shifts.data();
  std::vector<Tensor> out = rows.MakeOutputs(u);
  rows.Run(*runner_, ChannelFunction::kOutputs);
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

#include "train/layer.h"

#include <algorithm>
#include <cmath>

#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/sim/gradients.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

/// With fewer elements, the statistics of a channel are too uncertain.
constexpr int64_t kLeastElements = 64;
/// Layers without a grid learn at the rate of those with 8 bits.
constexpr double kFinenessOfFloats = 1.0 / 64;
/// Initial weights lie within this part of a step around their code.
constexpr float kInside = 0.49f;
/// Initial weights of one bit are at least this part of a step on the side of their code.
constexpr float kSignOf = 0.01f;

/// Calls `body(row, first element, count)` for every run of a row's weights.
template <typename Body>
void ForRuns(const WeightMatrix& view, const Body& body) {
  const int64_t run = view.k_stride == view.taps ? view.k : view.taps;
  for (int64_t row = 0; row < view.rows; ++row) {
    for (int64_t column = 0; column < view.k; column += run) body(row, view.At(row, column), run);
  }
}

}  // namespace

TrainLayer::TrainLayer(const Node& node, const OperatorQuantization& op,
                       TensorQuantizationConfig* weight_config,
                       const TensorQuantizationConfig* bias_config, const TrainOptions& options,
                       std::shared_ptr<BatchRunner> runner)
    : options_(options),
      model_weights_(node.inputs[1]->constant),
      config_(weight_config),
      runner_(runner ? std::move(runner) : std::make_shared<BatchRunner>()),
      math_(node, op.rule, runner_),
      wants_norm_(options.batch_norm && op.rule == QuantRule::kConv) {
  math_.FilterMinimally();
  weights_.assign(model_weights_.data<float>(),
                  model_weights_.data<float>() + model_weights_.count());
  const int bias_slot = BiasSlot(node, op.rule);
  if (bias_slot >= 0) {
    const std::vector<double> bias =
        ReadBias(node.constant(static_cast<size_t>(bias_slot)), math_.view().rows);
    bias_.assign(bias.begin(), bias.end());
    bias_.resize(static_cast<size_t>(math_.view().rows));
  }
  if (config_) StartFrom(bias_config);
  bias_gradient_.resize(bias_.size());
  weight_gradient_.resize(weights_.size());
  const bool learns = config_ && options.scales == TrainScales::kLearn && !config_->exponential() &&
                      (config_->policy & kPowerOf2) == 0 && config_->observer != "given";
  if (learns) scales_.emplace(*config_);
  if (config_) kept_scale_ = config_->scale;
  SetSizes();
}

/// Sets every weight as close to the model's as it can be while it rounds to its integer, since
/// recovery may have chosen another one than the nearest; sets the bias to the value of its
/// integers.
void TrainLayer::StartFrom(const TensorQuantizationConfig* bias_config) {
  if (!config_->exotic_weight() && config_->baked.count() == model_weights_.count()) {
    ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
      const size_t channel = static_cast<size_t>(row) % config_->scale.size();
      const float scale = config_->scale[channel];
      for (int64_t i = first; i < first + count; ++i) {
        const int64_t code = config_->baked.AsInt64(i) - config_->offset[channel];
        const float middle = static_cast<float>(code) * scale;
        float& weight = weights_[static_cast<size_t>(i)];
        if (config_->bipolar()) {
          weight =
              code > 0 ? std::max(weight, kSignOf * scale) : std::min(weight, -kSignOf * scale);
        } else {
          weight = middle + std::clamp(weight - middle, -kInside * scale, kInside * scale);
        }
      }
    });
  }
  if (bias_config == nullptr || bias_config->baked.empty()) return;
  const Tensor& baked = bias_config->baked;
  if (baked.count() != static_cast<int64_t>(bias_.size())) return;
  const bool real = baked.dtype() == DType::kFloat32;
  for (size_t row = 0; row < bias_.size(); ++row) {
    const float scale = real ? 1 : bias_config->scale[row % bias_config->scale.size()];
    bias_[row] = static_cast<float>(baked.AsDouble(static_cast<int64_t>(row))) * scale;
  }
}

void TrainLayer::Measure(std::span<const Tensor> float_outputs) {
  if (wants_norm_ && ElementsOfChannel(float_outputs) >= kLeastElements) {
    const ChannelMoments moments = MeasureChannels(*runner_, float_outputs);
    if (norm_) {
      norm_->Measure(moments);
    } else {
      norm_.emplace(moments, runner_);
    }
  }
  double sum = 0, squares = 0, count = 1e-30;
  for (const Tensor& tensor : float_outputs) {
    for (const float value : tensor.values<float>()) {
      sum += static_cast<double>(value);
      squares += static_cast<double>(value) * static_cast<double>(value);
    }
    count += static_cast<double>(tensor.count());
  }
  output_size_ = std::sqrt(std::max(squares - sum * sum / count, 0.0) / count);
}

void TrainLayer::SetMeasuring(bool measuring) {
  wants_norm_ = false;
  if (norm_) norm_->SetMeasuring(measuring);
}

void TrainLayer::SetSizes() {
  double squares = 0;
  for (const float weight : weights_) squares += static_cast<double>(weight * weight);
  const double size =
      std::sqrt(squares / static_cast<double>(std::max<size_t>(1, weights_.size())));
  fineness_ = kFinenessOfFloats;
  if (config_ && size > 0) {
    double sum = 0;
    for (const float scale : config_->scale) sum += static_cast<double>(scale);
    const double step = sum / static_cast<double>(config_->scale.size());
    fineness_ = std::min(1.0, step / size);
  }
  weight_step_ = fineness_ * size;
}

/// The factor by which the weights of a row are folded.
float TrainLayer::Factor(int64_t row) const {
  return norm_ ? norm_->Factor(static_cast<size_t>(row)) : 1;
}

/// Whether the grid of a row with a scale of its own follows its factor, so that the row keeps its
/// codes. Otherwise a channel that quantization makes louder would shrink until all of its weights
/// round to 0.
bool TrainLayer::GridFollows() const {
  return config_ && options_.scales != TrainScales::kObserve && config_->observer != "given" &&
         (config_->policy & kPowerOf2) == 0 &&
         config_->scale.size() == static_cast<size_t>(math_.view().rows);
}

void TrainLayer::PlaceGrid() {
  config_->scale = scales_ ? scales_->scale : kept_scale_;
  if (!norm_ || !GridFollows()) return;
  for (size_t row = 0; row < config_->scale.size(); ++row) {
    config_->scale[row] *= Factor(static_cast<int64_t>(row));
  }
}

void TrainLayer::Fold() {
  if (!norm_) return;
  norm_->EndBatch();
  for (size_t row = 0; row < bias_.size(); ++row) bias_[row] = norm_->Bias(row);
  ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
    const float factor = Factor(row);
    for (int64_t i = first; i < first + count; ++i) weights_[static_cast<size_t>(i)] *= factor;
  });
  if (GridFollows()) {
    for (size_t row = 0; row < kept_scale_.size(); ++row) {
      const float factor = Factor(static_cast<int64_t>(row));
      kept_scale_[row] *= factor;
      if (scales_) scales_->Multiply(row, factor);
    }
  }
  norm_.reset();
  if (config_ && options_.scales != TrainScales::kObserve) PlaceGrid();
  SetSizes();
  // The optimizers' state belongs to the unfolded parameters.
  weight_optimizer_ = {};
  bias_optimizer_ = {};
}

void TrainLayer::Begin() {
  std::fill(weight_gradient_.begin(), weight_gradient_.end(), 0.0f);
  std::fill(bias_gradient_.begin(), bias_gradient_.end(), 0.0f);
  if (norm_) norm_->EndBatch();
  if (!FoldsByBatch()) PlaceWeights();  // Forward() has the statistics of the batch
}

void TrainLayer::PlaceWeights() {
  folded_ = weights_;
  if (norm_) {
    ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
      const float factor = Factor(row);
      for (int64_t i = first; i < first + count; ++i) folded_[static_cast<size_t>(i)] *= factor;
    });
  }
  if (config_ && config_->observer != "given") {
    if (options_.scales == TrainScales::kObserve) {
      ObserveWeights();
    } else {
      PlaceGrid();
    }
  }
  QuantizeWeights();
}

/// Sets the scales, and the zero points of affine grids, to the range of the current weights
/// (OneFlow's MinMaxObserver), those of one bit to their mean magnitude (XNOR-Net, DoReFa-Net).
void TrainLayer::ObserveWeights() {
  const size_t channels = config_->scale.size();
  const bool bipolar = config_->bipolar();
  const double share =
      static_cast<double>(channels) / static_cast<double>(std::max<size_t>(1, folded_.size()));
  std::vector<double> least(channels, bipolar ? 0 : HUGE_VAL);
  std::vector<double> most(channels, bipolar ? 0 : -HUGE_VAL);
  ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
    const size_t channel = static_cast<size_t>(row) % channels;
    for (int64_t i = first; i < first + count; ++i) {
      const auto weight = static_cast<double>(folded_[static_cast<size_t>(i)]);
      if (bipolar) {
        most[channel] += share * std::fabs(weight);
        least[channel] = -most[channel];
        continue;
      }
      least[channel] = std::min(least[channel], weight);
      most[channel] = std::max(most[channel], weight);
    }
  });
  for (size_t i = 0; i < channels; ++i) {
    const Affine affine = bipolar ? AffineFromRange(least[i], most[i], *config_)
                                  : AffineOfActivation(least[i], most[i], *config_);
    config_->scale[i] = affine.scale;
    config_->offset[i] = affine.offset;
  }
}

void TrainLayer::QuantizeWeights() {
  used_ = folded_;
  if (config_ == nullptr) return;
  ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
    const size_t channel = static_cast<size_t>(row) % config_->scale.size();
    for (int64_t i = first; i < first + count; ++i) {
      float& weight = used_[static_cast<size_t>(i)];
      weight = FakeQuantize(weight, *config_, channel);
    }
  });
}

std::vector<Tensor> TrainLayer::Forward(std::span<const Tensor> x) {
  const std::vector<float> none;
  if (FoldsByBatch()) {
    plain_ = math_.Forward(x, weights_.data(), none);
    norm_->FollowBatch(plain_);
    PlaceWeights();
    std::vector<float> bias;
    for (int64_t row = 0; row < math_.view().rows; ++row) {
      bias.push_back(norm_->Bias(static_cast<size_t>(row)));
    }
    return math_.Forward(x, used_.data(), bias);
  }
  std::vector<Tensor> out = math_.Forward(x, used_.data(), norm_ ? none : bias_);
  if (!norm_) return out;
  plain_ = std::move(out);
  return norm_->Forward(plain_);
}

std::vector<Tensor> TrainLayer::Backward(std::span<const Tensor> x, std::span<const Tensor> dy,
                                         bool x_wanted) {
  std::vector<Tensor> of_plain;
  const bool by_batch = FoldsByBatch();
  if (norm_ && !by_batch) {
    of_plain = norm_->Backward(plain_, dy);
    plain_.clear();
    dy = of_plain;
  }
  float* bias_gradient = norm_ || bias_.empty() ? nullptr : bias_gradient_.data();
  std::vector<Tensor> out(x_wanted ? x.size() : 0);
  math_.Backward(x, used_.data(), dy, weight_gradient_.data(), bias_gradient, out);
  if (by_batch) StatisticsBackward(x, dy, out, x_wanted);
  return out;
}

void TrainLayer::StatisticsBackward(std::span<const Tensor> x, std::span<const Tensor> dy,
                                    std::vector<Tensor>& dx, bool x_wanted) {
  const auto rows = static_cast<size_t>(math_.view().rows);
  std::vector<double> of_factor(rows), of_bias(rows);
  for (const Tensor& sample : dy) {
    const float* from = sample.data<float>();
    const int64_t inner = sample.count() / std::max<int64_t>(1, sample.dim(0) * sample.dim(1));
    for (int64_t i = 0; i < sample.dim(0) * sample.dim(1); ++i) {
      double sum = 0;
      for (int64_t at = 0; at < inner; ++at) sum += static_cast<double>(from[i * inner + at]);
      of_bias[static_cast<size_t>(i % sample.dim(1))] += sum;
    }
  }
  // A grid that follows the factor is factor * fq(W); on any other the factor is inside of fq.
  const bool follows = GridFollows();
  const auto add = [&](const std::vector<float>& values, bool divided) {
    ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
      // A factor of 0 hides the weights, whose share is then left out.
      const auto factor = static_cast<double>(Factor(row));
      const double by = divided ? (factor == 0 ? 0 : 1 / factor) : 1;
      for (int64_t i = first; i < first + count; ++i) {
        const auto at = static_cast<size_t>(i);
        of_factor[static_cast<size_t>(row)] +=
            static_cast<double>(weight_gradient_[at]) * static_cast<double>(values[at]) * by;
      }
    });
  };
  if (follows) add(used_, true);
  GridBackward();
  if (!follows) add(weights_, false);
  FactorBackward();
  const std::vector<Tensor> du = norm_->StatisticsBackward(plain_, of_factor, of_bias);
  plain_.clear();
  std::vector<Tensor> more(x_wanted ? x.size() : 0);
  math_.Backward(x, weights_.data(), du, weight_gradient_.data(), nullptr, more);
  for (size_t sample = 0; sample < more.size(); ++sample) {
    AddGradient(more[sample].data<float>(), 1, more[sample].count(), dx[sample].data<float>());
  }
}

/// Propagates gradients from the weights on their grid to the folded weights and to the grid's
/// scales.
void TrainLayer::GridBackward() {
  if (config_ == nullptr || config_->exponential()) return;
  ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
    float* gradient = weight_gradient_.data() + first;
    const size_t channel = static_cast<size_t>(row) % config_->scale.size();
    const GridRange grid = WeightGrid(*config_, channel);
    const double step = GridGradient(folded_.data() + first, gradient, count, grid, std::nullopt,
                                     scales_.has_value(), gradient);
    if (scales_) scales_->gradient[channel] += static_cast<float>(step);
  });
}

/// Propagates gradients from the folded weights to the weights.
void TrainLayer::FactorBackward() {
  ForRuns(math_.view(), [&](int64_t row, int64_t first, int64_t count) {
    const float factor = Factor(row);
    for (int64_t i = first; i < first + count; ++i) {
      weight_gradient_[static_cast<size_t>(i)] *= factor;
    }
  });
}

void TrainLayer::Fields(StateBytes& state) {
  state.Flag(wants_norm_);
  for (double* size : {&weight_step_, &output_size_, &fineness_}) state.Value(*size);
  state.SameList(weights_);
  state.SameList(bias_);
  state.SameList(kept_scale_);
  bool normalizes = norm_.has_value();
  state.Flag(normalizes);
  const size_t rows = normalizes ? static_cast<size_t>(math_.view().rows) : 0;
  if (state.reading()) {
    norm_.reset();
    const ChannelMoments any{std::vector<double>(rows), std::vector<double>(rows)};
    if (normalizes) norm_.emplace(any, runner_);
  }
  if (norm_) norm_->Fields(state);
  if (scales_) scales_->Fields(state);
  weight_optimizer_.Fields(options_, state, weights_.size());
  bias_optimizer_.Fields(options_, state, normalizes ? rows : bias_.size());
  gamma_optimizer_.Fields(options_, state, rows);
}

void TrainLayer::Update(double rate) {
  if (!FoldsByBatch()) {  // else Backward() has done it
    GridBackward();
    FactorBackward();
  }
  const double output_step = output_size_ * fineness_;
  weight_optimizer_.Update(options_, rate, weight_step_, options_.weight_decay, weights_,
                           weight_gradient_);
  if (norm_) {
    bias_optimizer_.Update(options_, rate, output_step, 0, norm_->beta, norm_->beta_gradient);
    gamma_optimizer_.Update(options_, rate, output_step, 0, norm_->gamma, norm_->gamma_gradient);
    norm_->Limit();
    std::fill(norm_->beta_gradient.begin(), norm_->beta_gradient.end(), 0.0f);
    std::fill(norm_->gamma_gradient.begin(), norm_->gamma_gradient.end(), 0.0f);
  } else if (!bias_.empty()) {
    bias_optimizer_.Update(options_, rate, output_step, 0, bias_, bias_gradient_);
  }
  if (!scales_) return;
  scales_->Update(rate * options_.scale_rate);
  PlaceGrid();
}

}  // namespace requant

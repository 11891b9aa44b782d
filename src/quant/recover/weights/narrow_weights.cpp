#include "quant/recover/weights/narrow_weights.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/sort.h"
#include "base/str_cat.h"
#include "quant/sim/simulator.h"

namespace requant {

bool MayBeNarrow(const WeightMatrix& view, const TensorQuantizationConfig& input,
                 const TensorQuantizationConfig& weights) {
  const bool depthwise = view.groups > 1 && view.rows_per_group() == 1;
  return !depthwise && input.bits == 8 && !input.exotic_activation() && weights.bits == 8 &&
         weights.symmetric() && !weights.exotic_weight() && weights.quant_min <= -127 &&
         weights.quant_max == 127;
}

TensorQuantizationConfig Narrow(TensorQuantizationConfig weights) {
  weights.bits = 7;
  weights.quant_min = weights.quant_min < -127 ? -64 : -63;  // fullRange stays so
  weights.quant_max = 63;
  return weights;
}

double InputNoise(const Tensor& weights, const WeightMatrix& view,
                  const TensorQuantizationConfig& input) {
  const auto step = static_cast<double>(input.scale[0]);
  const bool half = !input.offset.empty() && input.offset[0] == input.quant_min;
  const float* data = weights.data<float>();
  double squares = 0;
  for (int64_t row = 0; row < view.rows; ++row) {
    for (int64_t column = 0; column < view.k; ++column) {
      const auto w = static_cast<double>(data[view.At(row, column)]);
      squares += w * w;
    }
  }
  return squares * step * step / (half ? 24 : 12);
}

namespace {

/// The mean and one standard error of it: other samples will lose no more five times out of six.
double LikelyMost(const std::vector<double>& losses) {
  const auto count = static_cast<double>(losses.size());
  double mean = 0, squares = 0;
  for (const double loss : losses) mean += loss / count;
  for (const double loss : losses) squares += (loss - mean) * (loss - mean);
  return count > 1 ? mean + std::sqrt(squares / (count - 1) / count) : mean;
}

class NarrowWeights : public RecoveryJob {
 public:
  explicit NarrowWeights(const RecoveryContext& context)
      : context_(context),
        simulator_(context.graph, context.record),
        samples_(std::min(static_cast<size_t>(kSamplesOfNarrowing), context.samples.size())) {
    std::vector<NarrowLayer>& offered = *context.narrow;
    // Methods before this one may have put layers back into float, which have no integers.
    std::erase_if(offered, [&](const NarrowLayer& layer) {
      const auto& config = context.record.configs[static_cast<size_t>(layer.config)];
      return config.state != QuantizationState::kActivated ||
             simulator_.Layer(context.graph.FindNode(layer.node)) == nullptr;
    });
    std::vector<size_t> order(offered.size());
    std::iota(order.begin(), order.end(), size_t{0});
    StableSort(order, [&](size_t a, size_t b) { return offered[a].loss < offered[b].loss; });
    for (const size_t i : order) layers_.push_back(std::move(offered[i]));
    offered.clear();
    bad_ = layers_.size() + 1;
    for (const auto& [name, bias] : context.biases) {
      simulator_.SetWeights(context.graph.FindNode(name), &bias);
    }
  }

  FinishProgress Step() override;
  bool changed() const override { return good_ > 0; }
  std::string detail() const override {
    if (layers_.empty()) return "the layers that could have 7 bits stay in float";
    return StrCat("7 bits for the weights of ", good_, " of ", layers_.size(),
                  " layers, which cost ", std::round(100 * loss_) / 100,
                  " dB or less in the outputs of ", samples_, " samples");
  }

 private:
  void Set(size_t count);
  void EndTrial();

  RecoveryContext context_;
  Simulator simulator_;
  const size_t samples_;
  std::vector<NarrowLayer> layers_;  // by ascending loss; holds the form that is not in the record
  std::vector<std::vector<Tensor>> float_outputs_;  // by sample
  size_t narrow_ = 0;                               // so many first layers have 7 bits now
  size_t good_ = 0, bad_ = 0;  // numbers of layers that lose little enough, or too much
  double loss_ = 0;            // dB, of good_
  bool measured_wide_ = false;
  std::vector<double> wide_, losses_;  // dB by sample: of 8 bits, and what the trial costs
  size_t sample_ = 0;
  int64_t done_ = 0;
};

/// Gives 7 bits to the first layers and 8 to the others.
void NarrowWeights::Set(size_t count) {
  for (; narrow_ != count; narrow_ < count ? ++narrow_ : --narrow_) {
    NarrowLayer& layer = layers_[narrow_ < count ? narrow_ : narrow_ - 1];
    std::swap(context_.record.configs[static_cast<size_t>(layer.config)], layer.weights);
    std::vector<double>& bias = context_.biases.at(layer.node);
    std::swap(bias, layer.bias);
    simulator_.SetWeights(context_.graph.FindNode(layer.node), &bias);
  }
}

FinishProgress NarrowWeights::Step() {
  // A trial of none, of all, and of each bisection.
  const auto trials = static_cast<int64_t>(2 + std::bit_width(layers_.size()));
  const int64_t total = trials * static_cast<int64_t>(samples_);
  if (layers_.empty()) return {"narrow_weights", total, total, true};
  const TensorMap& sample = context_.samples[sample_];
  if (!measured_wide_) float_outputs_.push_back(simulator_.Outputs(sample, SimMode::kFloat));
  const std::vector<Tensor>& wanted = float_outputs_[sample_];
  const std::vector<Tensor> got = simulator_.Outputs(sample, SimMode::kQuantized);
  SnrMeter meter;
  for (size_t i = 0; i < wanted.size(); ++i) meter.Add(wanted[i], got[i]);
  if (measured_wide_) {
    losses_.push_back(wide_[sample_] - meter.Decibels());
  } else {
    wide_.push_back(meter.Decibels());
  }
  ++done_;
  if (++sample_ == samples_) EndTrial();
  const bool finished = measured_wide_ && bad_ == good_ + 1;
  if (finished) Set(good_);
  return {"narrow_weights", finished ? total : std::min(done_, total - 1), total, finished};
}

void NarrowWeights::EndTrial() {
  sample_ = 0;
  if (!measured_wide_) {
    measured_wide_ = true;
    Set(layers_.size());
    return;
  }
  const double loss = LikelyMost(losses_);
  losses_.clear();
  double most_loss = layers_[0].most_loss;
  for (size_t i = 1; i < narrow_; ++i) most_loss = std::min(most_loss, layers_[i].most_loss);
  if (loss <= most_loss) {
    good_ = narrow_;
    loss_ = loss;
  } else {
    bad_ = narrow_;
  }
  if (bad_ > good_ + 1) Set((good_ + bad_) / 2);
}

}  // namespace

std::unique_ptr<RecoveryJob> MakeNarrowWeights(const RecoveryContext& context) {
  return std::make_unique<NarrowWeights>(context);
}

}  // namespace requant

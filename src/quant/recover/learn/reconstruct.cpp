// Learns the rounding of weights, the steps of activations and biases from the reconstruction of
// layers or blocks, without labels:
//   adaround              Nagel et al. 2020, arXiv 2004.10568: every weight rounds down or up
//                         (soft_rounding.h)
//   block_reconstruction  BRECQ, Li et al. 2021, arXiv 2102.05426, with the dropped quantization of
//                         QDrop, Wei et al. 2022, arXiv 2203.05740, and learned activation steps
//   learned_steps         only the activations' steps and the biases
//   empirical_bias        only the biases, by the measured mean error (Nagel et al. 2019, arXiv
//                         1906.04721, appendix D)
// Blocks are learned in order. The inputs of a block come from the quantized blocks before it, its
// targets from the float network. Changes that do not lower the error on held-out samples are
// undone.
#include <algorithm>
#include <cmath>
#include <set>

#include "base/lcg.h"
#include "base/str_cat.h"
#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/recover/learn/blocks.h"
#include "quant/recover/learn/soft_rounding.h"
#include "quant/recover/learn/tape.h"
#include "quant/recover/recovery.h"
#include "quant/sim/adam.h"

namespace requant {
namespace {

constexpr size_t kMemory = size_t{384} << 20;

struct Method {
  bool by_layer, rounding, steps, drop, mean_only;
  int64_t iterations;
  int64_t pixels;  // output pixels per step; larger images take fewer samples
  int most;        // most samples per step
};

constexpr Method kAdaRound = {true, true, false, false, false, 400, 1024, 8};
constexpr Method kBlocks = {false, true, true, true, false, 600, 4096, 8};
constexpr Method kSteps = {false, false, true, false, false, 200, 4096, 8};
constexpr Method kMeans = {true, false, false, false, true, 0, 1, 1};

struct Learner {
  const Node* node = nullptr;
  TensorQuantizationConfig* config = nullptr;
  SoftRounding rounding;
  std::vector<float> bias;
  Adam bias_adam;
  float bias_rate = 0;
};

struct StepLearner {
  TensorQuantizationConfig* config = nullptr;
  float start = 1;
  std::vector<float> log_step = {0};
  Adam adam;
};

class Reconstruction : public RecoveryJob {
 public:
  Reconstruction(const RecoveryContext& context, const Method& method)
      : context_(context),
        method_(method),
        simulator_(context.graph, context.record),
        tape_(simulator_) {
    for (auto& [name, bias] : context_.biases) {
      simulator_.SetWeights(context_.graph.FindNode(name), &bias);
    }
    blocks_ = FindBlocks(simulator_, method_.by_layer);
    iterations_ = context.options.recover_steps > 0 && method.iterations > 0
                      ? context.options.recover_steps
                      : method.iterations;
    LimitSamples();
  }

  FinishProgress Step() override {
    if (count_ == 0 || block_ >= blocks_.size()) return Progress(true);
    const Block& block = blocks_[block_];
    if (prepared_ < count_) {
      Prepare(block);
    } else if (block.layers.empty() || iteration_ >= iterations_) {
      if (iteration_ >= iterations_ && !block.layers.empty()) End(block);
      Advance(block);
    } else {
      if (iteration_ == 0) Begin(block);
      Iterate(block);
      ++iteration_;
    }
    return Progress(block_ >= blocks_.size());
  }

  bool idle() const override { return tried_ == 0; }
  std::string detail() const override {
    return StrCat(improved_, " of ", tried_, method_.by_layer ? " layers" : " blocks",
                  " improved, on ", count_, " samples");
  }

 private:
  FinishProgress Progress(bool finished) const {
    const auto each = static_cast<int64_t>(iterations_ + 1);
    return {"", static_cast<int64_t>(block_) * each + iteration_,
            static_cast<int64_t>(blocks_.size()) * each, finished};
  }

  /// Limits the samples to the memory: all live values of all samples are held, in float and
  /// quantized.
  void LimitSamples() {
    if (context_.samples.empty()) {
      context_.record.warnings.push_back("recovery had no samples to learn from: skipped");
      return;
    }
    Values values = simulator_.Start(context_.samples[0]);
    size_t peak = 1;
    for (size_t i = 0; i < simulator_.nodes().size(); ++i) {
      simulator_.Run(values, SimMode::kFloat, i, i + 1);
      size_t bytes = 0;
      for (const auto& [value, tensor] : values) bytes += tensor.bytes();
      peak = std::max(peak, bytes);
    }
    count_ = std::clamp(kMemory / (3 * peak), size_t{1}, context_.samples.size());
    if (count_ < context_.samples.size()) {
      context_.record.warnings.push_back(StrCat("recovery used ", count_, " of ",
                                                context_.samples.size(),
                                                " samples: more would not fit in its memory"));
    }
    for (size_t i = 0; i < count_; ++i) {
      real_.push_back(simulator_.Start(context_.samples[i]));
      grid_.push_back(real_.back());
    }
    held_out_ = count_ >= 16 ? count_ / 8 : 0;
    targets_.resize(count_);
  }

  /// Computes the results of the float network for the block.
  void Prepare(const Block& block) {
    for (int i = 0; i < 8 && prepared_ < count_; ++i, ++prepared_) {
      Values values = real_[prepared_];
      simulator_.Run(values, SimMode::kFloat, block.begin, block.end, false);
      targets_[prepared_].clear();
      for (const Value* output : block.outputs) targets_[prepared_].push_back(values.at(output));
      if (method_.mean_only) AddMeans(block, values);
      simulator_.Forget(values, block.begin, block.end);
      next_.push_back(std::move(values));
    }
  }

  void AddMeans(const Block& block, const Values& real) {
    for (const Node* node : block.layers) {
      Values values = grid_[prepared_];
      Tape tape(simulator_);
      size_t at = block.begin;
      for (; simulator_.nodes()[at] != node; ++at) {
        simulator_.Run(values, SimMode::kQuantized, at, at + 1, false);
      }
      tape.Forward(values, at, at + 1);
      const Tensor& wanted = real.at(node->outputs[0]);
      // Clipping by the range is no error of the mean.
      const Tensor& got = tape.LastRaw();
      std::vector<double>& sums = means_[node];
      const int64_t rows = simulator_.Layer(node)->math->view().rows;
      const bool last = context_.record.operators.at(node->name).rule != QuantRule::kConv;
      int64_t inner = 1;
      for (int64_t i = 2; i < wanted.rank() && !last; ++i) inner *= wanted.dim(i);
      sums.resize(static_cast<size_t>(rows));
      for (int64_t i = 0; i < wanted.count(); ++i) {
        sums[static_cast<size_t>(i / inner % rows)] +=
            static_cast<double>(got.data<float>()[i] - wanted.data<float>()[i]) /
            (static_cast<double>(wanted.count()) / static_cast<double>(rows));
      }
    }
  }

  void Begin(const Block& block) {
    learners_.clear();
    step_learners_.clear();
    tape_.layers.clear();
    tape_.steps.clear();
    for (const Node* node : block.layers) {
      const OperatorQuantization& op = context_.record.operators.at(node->name);
      Learner learner;
      learner.node = node;
      learner.config = &context_.record.configs[static_cast<size_t>(
          op.inputs[static_cast<size_t>(WeightSlot(*node, op.rule))])];
      SimLayer& layer = *simulator_.Layer(node);
      learner.bias = layer.bias;
      if (method_.rounding && !learner.config->exotic_weight()) StartRounding(learner);
      LayerGradient& gradient = tape_.layers[node];
      gradient.weights = layer.weights;
      gradient.bias = layer.bias;
      gradient.weight_gradient.assign(layer.weights.size(), 0);
      gradient.bias_gradient.assign(layer.bias.size(), 0);
      learners_.push_back(std::move(learner));
    }
    if (method_.steps) {
      for (size_t at = block.begin; at < block.end; ++at) {
        const Node& node = *simulator_.nodes()[at];
        for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
          if (node.outputs[slot] == nullptr) continue;
          const TensorQuantizationConfig* config = simulator_.WriteConfig(node, slot);
          if (config == nullptr || config->scale.size() != 1 || tape_.steps.contains(config) ||
              frozen_.contains(config) || (config->policy & kPowerOf2) != 0 ||
              config->observer == "given") {
            continue;
          }
          StepLearner step;
          step.config = const_cast<TensorQuantizationConfig*>(config);
          step.start = config->scale[0];
          tape_.steps[config] = 0;
          step_learners_.push_back(std::move(step));
        }
      }
    }
    int64_t pixels = 1;
    for (const Tensor& target : targets_[0]) {
      const int64_t channels = target.rank() > 1 ? std::max<int64_t>(1, target.dim(1)) : 1;
      pixels = std::max(pixels, target.rank() > 2 ? target.count() / channels : 1);
    }
    batch_ = static_cast<int>(std::clamp<int64_t>(method_.pixels / pixels, 2, method_.most));
    first_loss_ = Loss(block, 0, std::min<size_t>(count_, 16));
    before_ = Loss(block, held_out_ ? count_ - held_out_ : 0, count_);
    ++tried_;
  }

  void StartRounding(Learner& learner) {
    const OperatorQuantization& op = context_.record.operators.at(learner.node->name);
    const WeightMatrix view = ViewWeights(*learner.node, op.rule);
    const Tensor& weights = learner.node->inputs[1]->constant;
    const float* data = weights.data<float>();
    learner.rounding = SoftRounding(static_cast<size_t>(weights.count()), learner.config->quant_min,
                                    learner.config->quant_max);
    for (int64_t row = 0; row < view.rows; ++row) {
      const auto scale = static_cast<float>(learner.config->ScaleOfRow(row));
      for (int64_t column = 0; column < view.k; ++column) {
        const int64_t at = view.At(row, column);
        learner.rounding.Start(static_cast<size_t>(at), data[at] / scale,
                               static_cast<float>(learner.config->baked.AsInt64(at)), scale);
      }
    }
  }

  void Soften(const Learner& learner, bool hard) {
    if (learner.rounding.empty()) return;
    learner.rounding.Weights(hard, tape_.layers.at(learner.node).weights);
  }

  /// Mean squared error of the block's outputs relative to their power, over the samples [begin,
  /// end).
  double Loss(const Block& block, size_t begin, size_t end) {
    double total = 0;
    tape_.drop = false;
    for (size_t sample = begin; sample < end; ++sample) {
      Values values = grid_[sample];
      tape_.Forward(values, block.begin, block.end);
      for (size_t i = 0; i < block.outputs.size(); ++i) {
        SnrMeter one;
        one.Add(targets_[sample][i], values.at(block.outputs[i]));
        total += one.noise();
      }
    }
    return total / static_cast<double>(std::max<size_t>(1, end - begin));
  }

  void Iterate(const Block& block) {
    const double at = static_cast<double>(iteration_) / static_cast<double>(iterations_);
    for (Learner& learner : learners_) {
      Soften(learner, false);
      LayerGradient& gradient = tape_.layers.at(learner.node);
      gradient.bias = learner.bias;
      std::fill(gradient.weight_gradient.begin(), gradient.weight_gradient.end(), 0.0f);
      std::fill(gradient.bias_gradient.begin(), gradient.bias_gradient.end(), 0.0f);
    }
    for (auto& [config, gradient] : tape_.steps) gradient = 0;
    const size_t learned = count_ - held_out_;
    const auto factor = static_cast<float>(2 / (std::max(first_loss_, 1e-30) * batch_));
    tape_.drop = method_.drop;
    for (int i = 0; i < batch_; ++i) {
      tape_.seed = random_.Next();
      const size_t sample = (tape_.seed >> 8) % learned;
      Values values = method_.drop ? Mixed(sample) : grid_[sample];
      tape_.Forward(values, block.begin, block.end);
      std::map<const Value*, Tensor> gradients;
      for (size_t o = 0; o < block.outputs.size(); ++o) {
        const Tensor& wanted = targets_[sample][o];
        const Tensor& got = values.at(block.outputs[o]);
        Tensor gradient(DType::kFloat32, got.shape());
        auto* to = gradient.data<float>();
        const float *y = got.data<float>(), *target = wanted.data<float>();
        for (int64_t e = 0, n = got.count(); e < n; ++e) to[e] = factor * (y[e] - target[e]);
        gradients[block.outputs[o]] = std::move(gradient);
      }
      tape_.Backward(values, std::move(gradients));
    }
    Update(at);
  }

  /// Takes half of the elements of every block input from the float network, at random.
  Values Mixed(size_t sample) {
    Values values = grid_[sample];
    for (auto& [value, tensor] : values) {
      const auto other = real_[sample].find(value);
      if (tensor.dtype() != DType::kFloat32 || other == real_[sample].end()) continue;
      Tensor mixed = tensor.Clone();
      auto* to = mixed.data<float>();
      const float* from = other->second.data<float>();
      Lcg mixing{random_.state ^ 0x9e3779b9u};
      for (int64_t i = 0, n = mixed.count(); i < n; ++i) {
        if (mixing.Next() >> 31) to[i] = from[i];
      }
      tensor = std::move(mixed);
    }
    return values;
  }

  void Update(double at) {
    // The loss starts at 1; the share of one weight is about 1 / weights.
    size_t weights = 1;
    for (const Learner& learner : learners_) weights += learner.rounding.count();
    const double warm = 0.2;
    const double beta =
        at < warm ? 0 : 2 + 18 * 0.5 * (1 + std::cos(M_PI * (at - warm) / (1 - warm)));
    const float push = at < warm ? 0 : 0.3f / static_cast<float>(weights);
    const auto decay = static_cast<float>(0.5 * (1 + std::cos(M_PI * at)));
    for (Learner& learner : learners_) {
      LayerGradient& own = tape_.layers.at(learner.node);
      if (!learner.rounding.empty()) learner.rounding.Update(own.weight_gradient, push, beta);
      if (learner.bias.empty()) continue;
      if (learner.bias_rate == 0) {
        // A thousandth of a typical bias or output.
        double sum = 1e-12;
        for (const float b : learner.bias) sum += static_cast<double>(b * b);
        learner.bias_rate =
            static_cast<float>(1e-3 * std::sqrt(sum / static_cast<double>(learner.bias.size())));
      }
      learner.bias_adam.Update(learner.bias, own.bias_gradient, learner.bias_rate * decay);
    }
    for (StepLearner& step : step_learners_) {
      const auto slope = static_cast<float>(tape_.steps.at(step.config));
      step.adam.Update(step.log_step, {slope}, 4e-3f * decay);
      step.config->scale[0] = step.start * std::exp(std::clamp(step.log_step[0], -1.5f, 1.5f));
    }
  }

  void End(const Block& block) {
    if (method_.mean_only) return EndMeans(block);
    for (Learner& learner : learners_) {
      Soften(learner, true);
      tape_.layers.at(learner.node).bias = learner.bias;
    }
    const double after = Loss(block, held_out_ ? count_ - held_out_ : 0, count_);
    if (!(after < before_)) {
      for (StepLearner& step : step_learners_) step.config->scale[0] = step.start;
      learners_.clear();
      return;
    }
    ++improved_;
    for (Learner& learner : learners_) {
      if (!learner.rounding.empty()) {
        Tensor integers(learner.config->baked.dtype(), learner.config->baked.shape());
        auto* to = integers.data<int8_t>();
        for (size_t i = 0; i < learner.rounding.count(); ++i) {
          to[i] = static_cast<int8_t>(learner.rounding.Integer(i));
        }
        learner.config->baked = std::move(integers);
      }
      std::vector<double>& bias = context_.biases.at(learner.node->name);
      bias.assign(learner.bias.begin(), learner.bias.end());
      simulator_.SetWeights(learner.node, &bias);
    }
    learners_.clear();
  }

  void EndMeans(const Block& block) {
    for (const Node* node : block.layers) {
      const OperatorQuantization& op = context_.record.operators.at(node->name);
      if (BiasSlot(*node, op.rule) < 0) continue;
      std::vector<double>& bias = context_.biases.at(node->name);
      const std::vector<double>& sums = means_.at(node);
      const std::vector<double> kept = bias;
      const size_t shown = std::min<size_t>(count_, 32);
      const double before = Loss(block, 0, shown);
      bias.resize(sums.size());
      for (size_t i = 0; i < sums.size(); ++i) bias[i] -= sums[i] / static_cast<double>(count_);
      simulator_.SetWeights(node, &bias);
      ++tried_;
      if (Loss(block, 0, shown) < before) {
        ++improved_;
        continue;
      }
      bias = kept;
      simulator_.SetWeights(node, &bias);
    }
    means_.clear();
  }

  /// Computes the values after the block, in float and quantized.
  void Advance(const Block& block) {
    for (size_t sample = 0; sample < count_; ++sample) {
      simulator_.Run(grid_[sample], SimMode::kQuantized, block.begin, block.end);
      real_[sample] = std::move(next_[sample]);
    }
    // A step that a later block shares is final.
    for (size_t at = block.begin; at < block.end; ++at) {
      const Node& node = *simulator_.nodes()[at];
      for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
        if (node.outputs[slot]) frozen_.insert(simulator_.WriteConfig(node, slot));
      }
    }
    next_.clear();
    prepared_ = 0;
    iteration_ = 0;
    ++block_;
  }

  RecoveryContext context_;
  Method method_;
  Simulator simulator_;
  Tape tape_;
  std::vector<Block> blocks_;
  std::vector<Values> real_, grid_, next_;
  std::vector<std::vector<Tensor>> targets_;  // by sample and block output
  std::map<const Node*, std::vector<double>> means_;
  std::vector<Learner> learners_;
  std::vector<StepLearner> step_learners_;
  std::set<const TensorQuantizationConfig*> frozen_;
  size_t count_ = 0, held_out_ = 0, prepared_ = 0, block_ = 0;
  int64_t iterations_ = 0, iteration_ = 0;
  int64_t tried_ = 0, improved_ = 0;
  double first_loss_ = 1, before_ = 0;
  int batch_ = 1;
  Lcg random_{12345};
};

}  // namespace

std::unique_ptr<RecoveryJob> MakeAdaRound(const RecoveryContext& context) {
  return std::make_unique<Reconstruction>(context, kAdaRound);
}
std::unique_ptr<RecoveryJob> MakeBlockReconstruction(const RecoveryContext& context) {
  return std::make_unique<Reconstruction>(context, kBlocks);
}
std::unique_ptr<RecoveryJob> MakeLearnedSteps(const RecoveryContext& context) {
  return std::make_unique<Reconstruction>(context, kSteps);
}
std::unique_ptr<RecoveryJob> MakeEmpiricalBias(const RecoveryContext& context) {
  return std::make_unique<Reconstruction>(context, kMeans);
}

}  // namespace requant

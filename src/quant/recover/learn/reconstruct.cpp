// Learns the rounding of weights, the steps of activations and biases from the reconstruction of
// layers or blocks, without labels:
//   adaround              Nagel et al. 2020, arXiv 2004.10568: every weight rounds down or up
//                         (soft_rounding.h)
//   block_reconstruction  BRECQ, Li et al. 2021, arXiv 2102.05426, with the dropped quantization of
//                         QDrop, Wei et al. 2022, arXiv 2203.05740, and learned activation steps
//   learned_steps         only the activations' steps and the biases
// What does not lower the error on samples kept out of the learning is undone.
#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/lcg.h"
#include "quant/recover/learn/block_job.h"
#include "quant/recover/learn/learners.h"

namespace requant {
namespace {

/// What a block reads while it learns.
enum class Inputs : uint8_t {
  kQuantized,  // what the quantized blocks before it compute
  kDropped,    // half of it, by chance, in float, and so are half of the values inside (QDrop)
};

/// One row for each method of this file.
struct Strategy {
  BlockJob::FindBlocks find;
  const char* unit;
  std::span<const MakeLearner> learners;
  Inputs inputs;
  int64_t iterations;
  int64_t pixels;  // output pixels per step; larger images take fewer samples
};

constexpr int64_t kMostSamples = 8;  // most samples per step, unless recover_batch says otherwise

constexpr MakeLearner kOfRounding[] = {&LearnRounding, &LearnBiases};
constexpr MakeLearner kOfSteps[] = {&LearnBiases, &LearnSteps};
constexpr MakeLearner kAll[] = {&LearnRounding, &LearnBiases, &LearnSteps};

constexpr Strategy kAdaRound = {&LayersAsBlocks,    "layers", kOfRounding,
                                Inputs::kQuantized, 400,      1024};
constexpr Strategy kBrecq = {&ResidualBlocks, "blocks", kAll, Inputs::kDropped, 600, 4096};
constexpr Strategy kLearnedSteps = {&ResidualBlocks,    "blocks", kOfSteps,
                                    Inputs::kQuantized, 200,      4096};

class Reconstruction : public BlockJob {
 public:
  Reconstruction(const RecoveryContext& context, const Strategy& strategy)
      : BlockJob(context, strategy.find, strategy.unit,
                 context.options.recover_steps > 0 ? context.options.recover_steps
                                                   : strategy.iterations),
        strategy_(strategy) {
    for (const MakeLearner make : strategy.learners) {
      learners_.push_back(make({context_, simulator_, tape_}));
    }
  }

 private:
  void Begin(const Block& block) override {
    tape_.layers.clear();
    for (const Node* node : block.layers) {
      const SimLayer& layer = *simulator_.Layer(node);
      LayerGradient& gradient = tape_.layers[node];
      gradient.weights = layer.weights;
      gradient.bias = layer.bias;
      gradient.weight_gradient.assign(layer.weights.size(), 0);
      gradient.bias_gradient.assign(layer.bias.size(), 0);
    }
    for (const auto& learner : learners_) learner->Begin(block);
    int64_t pixels = 1;
    for (const Tensor& target : targets_[0]) {
      const int64_t channels = target.rank() > 1 ? std::max<int64_t>(1, target.dim(1)) : 1;
      pixels = std::max(pixels, target.rank() > 2 ? target.count() / channels : 1);
    }
    batch_ = std::clamp<int64_t>(strategy_.pixels / pixels, 2, kMostSamples);
    if (context_.options.recover_batch > 0) batch_ = context_.options.recover_batch;
    first_loss_ = Loss(block, 0, std::min<size_t>(count(), 16));
    before_ = HeldOutLoss(block);
  }

  void Iterate(const Block& block) override {
    for (const auto& learner : learners_) learner->Apply(false);
    for (auto& [node, gradient] : tape_.layers) {
      std::fill(gradient.weight_gradient.begin(), gradient.weight_gradient.end(), 0.0f);
      std::fill(gradient.bias_gradient.begin(), gradient.bias_gradient.end(), 0.0f);
    }
    for (auto& [config, gradient] : tape_.steps) gradient = 0;
    const auto factor =
        static_cast<float>(2 / (std::max(first_loss_, 1e-30) * static_cast<double>(batch_)));
    const bool drop = strategy_.inputs == Inputs::kDropped;
    tape_.drop = drop;
    for (int64_t i = 0; i < batch_; ++i) {
      tape_.seed = random_.Next();
      const size_t sample = Learned((tape_.seed >> 8) % learned());
      Values values = drop ? Mixed(sample) : grid_[sample];
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
    const double at = static_cast<double>(iteration()) / static_cast<double>(iterations());
    for (const auto& learner : learners_) learner->Update(at);
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

  void End(const Block& block) override {
    for (const auto& learner : learners_) learner->Apply(true);
    const bool improved = HeldOutLoss(block) < before_;
    Count(improved);
    for (const auto& learner : learners_) {
      if (improved) {
        learner->Keep();
      } else {
        learner->Undo();
      }
    }
  }

  void Leave(const Block& block) override {
    for (const auto& learner : learners_) learner->Leave(block);
  }

  const Strategy& strategy_;
  std::vector<std::unique_ptr<BlockLearner>> learners_;
  double first_loss_ = 1, before_ = 0;
  int64_t batch_ = 1;
  Lcg random_{12345};
};

}  // namespace

std::unique_ptr<RecoveryJob> MakeAdaRound(const RecoveryContext& context) {
  return std::make_unique<Reconstruction>(context, kAdaRound);
}
std::unique_ptr<RecoveryJob> MakeBlockReconstruction(const RecoveryContext& context) {
  return std::make_unique<Reconstruction>(context, kBrecq);
}
std::unique_ptr<RecoveryJob> MakeLearnedSteps(const RecoveryContext& context) {
  return std::make_unique<Reconstruction>(context, kLearnedSteps);
}

}  // namespace requant

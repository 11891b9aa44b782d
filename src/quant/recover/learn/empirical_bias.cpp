// The measured mean error of every layer's outputs leaves its bias (empirical bias correction:
// Nagel et al. 2019, arXiv 1906.04721, appendix D). What does not lower the error is undone.
#include <map>

#include "quant/assign/assign.h"
#include "quant/recover/learn/block_job.h"

namespace requant {
namespace {

constexpr size_t kSamplesOfLoss = 32;

class EmpiricalBias : public BlockJob {
 public:
  explicit EmpiricalBias(const RecoveryContext& context)
      : BlockJob(context, &LayersAsBlocks, "layers", 0) {}

 private:
  void Look(const Block& block, size_t sample, const Values& real) override {
    for (const Node* node : block.layers) {
      Values values = grid_[sample];
      Tape tape(simulator_);
      const size_t at = RunTo(block, node, values);
      tape.Forward(values, at, at + 1);
      const Tensor& wanted = real.at(node->outputs[0]);
      // Clipping by the range is no error of the mean.
      const Tensor& got = tape.LastRaw();
      std::vector<double>& sums = errors_[node];
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

  void Begin(const Block&) override {}
  void Iterate(const Block&) override {}

  void End(const Block& block) override {
    for (const Node* node : block.layers) {
      const OperatorQuantization& op = context_.record.operators.at(node->name);
      if (BiasSlot(*node, op.rule) < 0) continue;
      std::vector<double>& bias = context_.biases.at(node->name);
      const std::vector<double>& sums = errors_.at(node);
      const std::vector<double> kept = bias;
      const size_t shown = std::min(count(), kSamplesOfLoss);
      const double before = Loss(block, 0, shown);
      bias.resize(sums.size());
      for (size_t i = 0; i < sums.size(); ++i) bias[i] -= sums[i] / static_cast<double>(count());
      simulator_.SetWeights(node, &bias);
      const bool improved = Loss(block, 0, shown) < before;
      Count(improved);
      if (improved) continue;
      bias = kept;
      simulator_.SetWeights(node, &bias);
    }
    errors_.clear();
  }

  std::map<const Node*, std::vector<double>> errors_;  // by channel, summed over the samples
};

}  // namespace

std::unique_ptr<RecoveryJob> MakeEmpiricalBias(const RecoveryContext& context) {
  return std::make_unique<EmpiricalBias>(context);
}

}  // namespace requant

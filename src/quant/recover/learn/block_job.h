// Work that goes through the network block by block.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "quant/recover/learn/blocks.h"
#include "quant/recover/learn/tape.h"
#include "quant/recover/recovery.h"
#include "quant/sim/simulator.h"

namespace requant {

/// Works on the blocks in order. The inputs of a block come from the quantized blocks before it,
/// its targets from the float network. The values between two blocks are held for every sample, in
/// float and quantized, which limits the number of samples: a block with large inputs and outputs
/// works on fewer of them than a later one with small ones.
class BlockJob : public RecoveryJob {
 public:
  using FindBlocks = std::vector<Block> (*)(Simulator& simulator);

  /// `unit`: what the blocks are called in the record. `iterations`: how often Iterate() is called
  /// for each of them.
  BlockJob(const RecoveryContext& context, FindBlocks find, const char* unit, int64_t iterations);
  FinishProgress Step() override;
  bool idle() const override { return tried_ == 0; }
  std::string detail() const override;

 protected:
  /// What the float network computes inside the block, on sample `sample`.
  virtual void Look(const Block& block, size_t sample, const Values& real);
  virtual void Begin(const Block& block) = 0;
  virtual void Iterate(const Block& block) = 0;
  virtual void End(const Block& block) = 0;
  /// The block is settled.
  virtual void Leave(const Block& block);

  /// Mean over samples of the squared error of the block's outputs, over every `stride`-th sample
  /// from `begin` on, before `end`.
  double Loss(const Block& block, size_t begin, size_t end, size_t stride = 1);
  /// Loss() over the samples that judge.
  double HeldOutLoss(const Block& block) {
    return judges() > 0 ? Loss(block, kJudgeEvery - 1, count(), kJudgeEvery)
                        : Loss(block, 0, count());
  }
  /// The number of samples that the present block works on.
  size_t count() const { return grid_.size(); }
  /// How many of these samples are learned from; the others judge.
  size_t learned() const { return count() - judges(); }
  /// Whether the sample judges.
  bool Judges(size_t sample) const {
    return judges() > 0 && sample % kJudgeEvery == kJudgeEvery - 1;
  }
  /// Runs the quantized network inside of the block up to a node of it, from the inputs of a sample
  /// in `values`; returns the node's index.
  size_t RunTo(const Block& block, const Node* node, Values& values);
  /// The index of the `at`-th sample that is learned from.
  size_t Learned(size_t at) const { return judges() > 0 ? at + at / (kJudgeEvery - 1) : at; }
  int64_t iteration() const { return iteration_; }
  int64_t iterations() const { return iterations_; }
  /// A layer or block was tried, with success or without.
  void Count(bool improved) {
    ++tried_;
    improved_ += improved;
  }

  RecoveryContext context_;
  Simulator simulator_;
  Tape tape_;
  std::vector<Values> real_, grid_;           // the block's inputs, by sample
  std::vector<std::vector<Tensor>> targets_;  // by sample and block output

 private:
  /// One sample of this many judges, where there are enough samples.
  static constexpr size_t kJudgeEvery = 8;

  size_t judges() const { return count() < 2 * kJudgeEvery ? 0 : count() / kJudgeEvery; }
  FinishProgress Progress(bool finished) const;
  void CountSamples();
  bool Admit(const Block& block);
  void Prepare(const Block& block);
  void Advance(const Block& block);

  std::vector<Block> blocks_;
  std::vector<size_t> room_;  // for how many samples memory suffices, by block
  const char* unit_;
  std::vector<Values> next_;
  size_t block_ = 0;
  size_t fewest_ = SIZE_MAX, most_ = 0;  // samples of blocks with layers
  int64_t iterations_ = 0, iteration_ = 0;
  int64_t tried_ = 0, improved_ = 0;
};

}  // namespace requant

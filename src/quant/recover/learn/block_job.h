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
/// its targets from the float network. All live values of all samples are held, in float and
/// quantized, which limits the number of samples.
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

  /// Mean squared error of the block's outputs relative to their power, over the samples [begin,
  /// end).
  double Loss(const Block& block, size_t begin, size_t end);
  double HeldOutLoss(const Block& block) {
    return Loss(block, held_out_ ? count_ - held_out_ : 0, count_);
  }
  size_t count() const { return count_; }
  /// Samples that are learned from; the others judge.
  size_t learned() const { return count_ - held_out_; }
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
  FinishProgress Progress(bool finished) const;
  void LimitSamples();
  void Prepare(const Block& block);
  void Advance(const Block& block);

  std::vector<Block> blocks_;
  const char* unit_;
  std::vector<Values> next_;
  size_t count_ = 0, held_out_ = 0, prepared_ = 0, block_ = 0;
  int64_t iterations_ = 0, iteration_ = 0;
  int64_t tried_ = 0, improved_ = 0;
};

}  // namespace requant

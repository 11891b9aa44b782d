// What is learned in a block by gradients.
#pragma once

#include <memory>

#include "quant/recover/learn/blocks.h"
#include "quant/recover/learn/tape.h"
#include "quant/recover/recovery.h"
#include "quant/sim/simulator.h"

namespace requant {

/// What learners of a block share.
struct Lesson {
  const RecoveryContext& context;
  Simulator& simulator;
  Tape& tape;  // its `layers` are those of the block
};

class BlockLearner {
 public:
  virtual ~BlockLearner() = default;
  /// Starts with what the block has now.
  virtual void Begin(const Block& block) = 0;
  /// Puts what has been learned so far into the tape; `hard`: as it would stay.
  virtual void Apply(bool hard) = 0;
  /// One step by the tape's gradients. `at`: which share of all steps is over.
  virtual void Update(double at) = 0;
  /// The block has improved: into the record.
  virtual void Keep() = 0;
  /// It has not.
  virtual void Undo() {}
  /// The block is settled.
  virtual void Leave(const Block& block) { (void)block; }
};

using MakeLearner = std::unique_ptr<BlockLearner> (*)(const Lesson& lesson);

/// Every weight rounds down or up (AdaRound, Nagel et al. 2020, arXiv 2004.10568).
std::unique_ptr<BlockLearner> LearnRounding(const Lesson& lesson);
/// The layers' biases. After the rounding, whose integers it hands to the simulator.
std::unique_ptr<BlockLearner> LearnBiases(const Lesson& lesson);
/// The steps of activations (LSQ, Esser et al. 2020, arXiv 1902.08153).
std::unique_ptr<BlockLearner> LearnSteps(const Lesson& lesson);

}  // namespace requant

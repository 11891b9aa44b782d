#include "quant/recover/learn/block_job.h"

#include <algorithm>

#include "base/str_cat.h"

namespace requant {
namespace {

constexpr size_t kMemory = size_t{384} << 20;

}  // namespace

BlockJob::BlockJob(const RecoveryContext& context, FindBlocks find, const char* unit,
                   int64_t iterations)
    : context_(context),
      simulator_(context.graph, context.record),
      tape_(simulator_),
      unit_(unit),
      iterations_(iterations) {
  for (auto& [name, bias] : context_.biases) {
    simulator_.SetWeights(context_.graph.FindNode(name), &bias);
  }
  blocks_ = find(simulator_);
  LimitSamples();
}

void BlockJob::Look(const Block& block, size_t sample, const Values& real) {
  (void)block;
  (void)sample;
  (void)real;
}

void BlockJob::Leave(const Block& block) { (void)block; }

FinishProgress BlockJob::Step() {
  if (count_ == 0 || block_ >= blocks_.size()) return Progress(true);
  const Block& block = blocks_[block_];
  if (prepared_ < count_) {
    Prepare(block);
  } else if (block.layers.empty() || iteration_ >= iterations_) {
    if (!block.layers.empty()) End(block);
    Advance(block);
  } else {
    if (iteration_ == 0) Begin(block);
    Iterate(block);
    ++iteration_;
  }
  return Progress(block_ >= blocks_.size());
}

std::string BlockJob::detail() const {
  return StrCat(improved_, " of ", tried_, " ", unit_, " improved, on ", count_, " samples");
}

FinishProgress BlockJob::Progress(bool finished) const {
  const auto each = static_cast<int64_t>(iterations_ + 1);
  return {"", static_cast<int64_t>(block_) * each + iteration_,
          static_cast<int64_t>(blocks_.size()) * each, finished};
}

/// To what fits in memory.
void BlockJob::LimitSamples() {
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
void BlockJob::Prepare(const Block& block) {
  for (int i = 0; i < 8 && prepared_ < count_; ++i, ++prepared_) {
    Values values = real_[prepared_];
    simulator_.Run(values, SimMode::kFloat, block.begin, block.end, false);
    targets_[prepared_].clear();
    for (const Value* output : block.outputs) targets_[prepared_].push_back(values.at(output));
    Look(block, prepared_, values);
    simulator_.Forget(values, block.begin, block.end);
    next_.push_back(std::move(values));
  }
}

double BlockJob::Loss(const Block& block, size_t begin, size_t end) {
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

/// Computes the values after the block, in float and quantized.
void BlockJob::Advance(const Block& block) {
  for (size_t sample = 0; sample < count_; ++sample) {
    simulator_.Run(grid_[sample], SimMode::kQuantized, block.begin, block.end);
    real_[sample] = std::move(next_[sample]);
  }
  Leave(block);
  next_.clear();
  prepared_ = 0;
  iteration_ = 0;
  ++block_;
}

}  // namespace requant

#include "quant/recover/learn/block_job.h"

#include <algorithm>

#include "base/str_cat.h"

namespace requant {
namespace {

constexpr size_t kSamplesOfStep = 8;  // samples that one step admits or prepares

size_t BytesOf(const Values& values) {
  size_t bytes = 0;
  for (const auto& [value, tensor] : values) bytes += tensor.bytes();
  return bytes;
}

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
  CountSamples();
}

void BlockJob::Look(const Block& block, size_t sample, const Values& real) {
  (void)block;
  (void)sample;
  (void)real;
}

void BlockJob::Leave(const Block& block) { (void)block; }

FinishProgress BlockJob::Step() {
  if (room_.empty() || block_ >= blocks_.size()) return Progress(true);
  const Block& block = blocks_[block_];
  if (Admit(block)) return Progress(false);
  if (next_.size() < count()) {
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
  const std::string samples = fewest_ < most_ ? StrCat(fewest_, " to ", most_) : StrCat(most_);
  return StrCat(improved_, " of ", tried_, " ", unit_, " improved, on ", samples, " samples");
}

FinishProgress BlockJob::Progress(bool finished) const {
  const auto each = static_cast<int64_t>(iterations_ + 1);
  return {"", static_cast<int64_t>(block_) * each + iteration_,
          static_cast<int64_t>(blocks_.size()) * each, finished};
}

/// Finds for every block how many samples fit in memory, from the sizes of one sample's values.
void BlockJob::CountSamples() {
  if (context_.samples.empty()) {
    context_.record.warnings.push_back("recovery had no samples to learn from: skipped");
    return;
  }
  const int64_t asked = context_.options.recover_memory;
  const auto memory = static_cast<size_t>(asked > 0 ? asked : kRecoverMegabytes) << 20;
  Values values = simulator_.Start(context_.samples[0]);
  size_t before = BytesOf(values);
  for (const Block& block : blocks_) {
    simulator_.Run(values, SimMode::kFloat, block.begin, block.end);
    const size_t behind = BytesOf(values);
    // The inputs are held twice, in float and quantized, beside the outputs in float.
    const size_t bytes = std::max<size_t>(2 * before + behind, 1);
    room_.push_back(std::clamp(memory / bytes, size_t{1}, context_.samples.size()));
    before = behind;
    if (block.layers.empty()) continue;
    fewest_ = std::min(fewest_, room_.back());
    most_ = std::max(most_, room_.back());
  }
  if (most_ > 0 && most_ < context_.samples.size()) {
    context_.record.warnings.push_back(StrCat("recovery used ", most_, " of ",
                                              context_.samples.size(),
                                              " samples: more would not fit in its memory"));
  }
}

/// Gives the block as many samples as memory holds: drops some, or computes the block's inputs of
/// further ones, a few in a call. Returns whether samples were added.
bool BlockJob::Admit(const Block& block) {
  const size_t room = room_[block_];
  if (count() > room) {
    real_.resize(room);
    grid_.resize(room);
  }
  const size_t wanted = std::min(room, count() + kSamplesOfStep);
  if (count() == wanted || iteration_ > 0) return false;
  for (size_t sample = count(); sample < wanted; ++sample) {
    Values real = simulator_.Start(context_.samples[sample]);
    Values grid = real;
    simulator_.Run(real, SimMode::kFloat, 0, block.begin);
    simulator_.Run(grid, SimMode::kQuantized, 0, block.begin);
    real_.push_back(std::move(real));
    grid_.push_back(std::move(grid));
  }
  return true;
}

/// Computes the results of the float network for the block, for a few samples in a call.
void BlockJob::Prepare(const Block& block) {
  targets_.resize(count());
  const size_t end = std::min(count(), next_.size() + kSamplesOfStep);
  for (size_t sample = next_.size(); sample < end; ++sample) {
    Values values = real_[sample];
    simulator_.Run(values, SimMode::kFloat, block.begin, block.end, false);
    targets_[sample].clear();
    for (const Value* output : block.outputs) targets_[sample].push_back(values.at(output));
    Look(block, sample, values);
    simulator_.Forget(values, block.begin, block.end);
    next_.push_back(std::move(values));
  }
}

double BlockJob::Loss(const Block& block, size_t begin, size_t end, size_t stride) {
  double total = 0;
  size_t samples = 0;
  tape_.drop = false;
  for (size_t sample = begin; sample < end; sample += stride, ++samples) {
    Values values = grid_[sample];
    tape_.Forward(values, block.begin, block.end);
    for (size_t i = 0; i < block.outputs.size(); ++i) {
      SnrMeter one;
      one.Add(targets_[sample][i], values.at(block.outputs[i]));
      total += one.noise();
    }
  }
  return total / static_cast<double>(std::max<size_t>(1, samples));
}

size_t BlockJob::RunTo(const Block& block, const Node* node, Values& values) {
  size_t at = block.begin;
  for (; simulator_.nodes()[at] != node; ++at) {
    simulator_.Run(values, SimMode::kQuantized, at, at + 1, false);
  }
  return at;
}

/// Computes the values after the block, in float and quantized.
void BlockJob::Advance(const Block& block) {
  for (size_t sample = 0; sample < count(); ++sample) {
    simulator_.Run(grid_[sample], SimMode::kQuantized, block.begin, block.end);
    real_[sample] = std::move(next_[sample]);
  }
  Leave(block);
  next_.clear();
  targets_.clear();
  iteration_ = 0;
  ++block_;
}

}  // namespace requant

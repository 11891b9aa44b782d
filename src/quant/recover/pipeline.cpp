#include "quant/recover/pipeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/str_cat.h"
#include "quant/recover/weights/narrow_weights.h"

namespace requant {
namespace {

constexpr size_t kSamplesOfReport = 64;
constexpr int64_t kSmallOutputs = 1 << 16;  // elements, of one sample

/// An option asks for it, not `recover`.
constexpr RecoveryRow kNarrowWeights = {.name = "narrow_weights",
                                        .stage = RecoveryStage::kChoose,
                                        .job = &MakeNarrowWeights,
                                        .pays = true};

}  // namespace

RecoveryPipeline::RecoveryPipeline(const RecoveryContext& context, const RecoveryMethods& methods)
    : context_(context) {
  for (const RecoveryRow* row : methods.At(RecoveryStage::kChoose)) rows_.push_back(row);
  if (context.narrow != nullptr && !context.narrow->empty()) rows_.push_back(&kNarrowWeights);
  for (const RecoveryRow* row : methods.At(RecoveryStage::kLearn)) rows_.push_back(row);
  if (!rows_.empty()) before_ = OutputSnr();
}

/// Measures the outputs of the simulated network against float, over some kept samples.
SnrMeter RecoveryPipeline::OutputSnr() {
  const auto& [graph, record, options, samples, biases, narrow] = context_;
  Simulator simulator(graph, record);
  for (const auto& [name, bias] : biases) simulator.SetWeights(graph.FindNode(name), &bias);
  SnrMeter meter;
  const size_t most = options.quick_choices ? kSamplesOfReport / 16 : kSamplesOfReport;
  for (size_t i = 0; i < std::min(samples.size(), most); ++i) {
    // Samples from the end: learning sees all of them, and every method is reported on the same.
    const TensorMap& sample = samples[samples.size() - 1 - i];
    const std::vector<Tensor> wanted = FloatOutputs(simulator, i, sample);
    const std::vector<Tensor> got = simulator.Outputs(sample, SimMode::kQuantized);
    for (size_t j = 0; j < wanted.size(); ++j) meter.Add(wanted[j], got[j]);
  }
  return meter;
}

/// The float outputs of the i-th sample that is reported on. They never change; small ones are
/// kept.
std::vector<Tensor> RecoveryPipeline::FloatOutputs(Simulator& simulator, size_t i,
                                                   const TensorMap& sample) {
  if (i < float_outputs_.size()) return float_outputs_[i];
  std::vector<Tensor> made = simulator.Outputs(sample, SimMode::kFloat);
  int64_t elements = 0;
  for (const Tensor& output : made) elements += output.count();
  if (i == float_outputs_.size() && elements <= kSmallOutputs) float_outputs_.push_back(made);
  return made;
}

FinishProgress RecoveryPipeline::Step() {
  const RecoveryRow& row = *rows_[next_];
  if (!job_) {
    before_job_ = {context_.record.configs, context_.record.operators, context_.biases};
    job_ = row.job(context_);
  }
  FinishProgress progress = job_->Step();
  progress.method = row.name;
  if (!progress.finished) return progress;
  End(row);
  progress.finished = ++next_ == rows_.size();
  return progress;
}

/// Layers and blocks that improve one by one may still add up to worse outputs.
void RecoveryPipeline::End(const RecoveryRow& row) {
  QuantizationRecord& record = context_.record;
  SnrMeter after = job_->changed() ? OutputSnr() : before_;
  std::string detail = job_->detail();
  if (job_->idle()) WarnOfIdle(row.name, context_.options, record);
  job_.reset();
  if (!row.pays && after.ScoreDecibels() < before_.ScoreDecibels()) {
    detail +=
        StrCat("; undone: the outputs fell to ", std::round(10 * after.Decibels()) / 10, " dB");
    record.configs = std::move(before_job_.configs);
    record.operators = std::move(before_job_.operators);
    context_.biases = std::move(before_job_.biases);
    after = before_;
  }
  record.recovery.push_back({row.name, before_.Decibels(), after.Decibels(), std::move(detail)});
  before_ = after;
  before_job_ = {};
}

}  // namespace requant

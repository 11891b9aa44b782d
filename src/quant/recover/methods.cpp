// What the options ask for, and how it is reported.
#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/recover/choose_float/float_trials.h"
#include "quant/recover/recovery.h"
#include "quant/recover/weights/layer_weights.h"

namespace requant {
namespace {

constexpr int64_t kSamplesOfRecovery = 256;

/// How many samples a method keeps.
int64_t SamplesOf(const RecoveryRow& row, const QuantizeOptions& options) {
  const int64_t most = options.recover_samples > 0 ? options.recover_samples : kSamplesOfRecovery;
  switch (row.stage) {
    case RecoveryStage::kMeasure:
      return 1;  // which moments start with (Calibration)
    case RecoveryStage::kChoose:
      return options.quick_choices ? std::min(kQuickSamples, most) : most;
    case RecoveryStage::kLearn:
      return most;
    default:
      return 0;
  }
}

}  // namespace

RecoveryMethods::RecoveryMethods(const QuantizeOptions& options) {
  for (const std::string& method : options.recover) {
    if (FindRecovery(method) != nullptr) continue;
    std::string known;
    for (const RecoveryRow& row : RecoveryTable()) {
      known += StrCat(known.empty() ? "" : ", ", row.name);
    }
    Fail(ErrorCode::kInvalidArgument, StrCat("there is no recovery method '", method, "'"),
         {.hint = StrCat("use ", known)});
  }
  for (const RecoveryRow& row : RecoveryTable()) {
    const std::vector<std::string>& asked = options.recover;
    if (std::find(asked.begin(), asked.end(), row.name) == asked.end()) continue;
    rows_.push_back(&row);
    samples_ = std::max(samples_, SamplesOf(row, options));
  }
}

std::vector<const RecoveryRow*> RecoveryMethods::At(RecoveryStage stage) const {
  std::vector<const RecoveryRow*> rows;
  for (const RecoveryRow* row : rows_) {
    if (row->stage == stage) rows.push_back(row);
  }
  return rows;
}

void WarnOfIdle(const char* method, const QuantizeOptions& options, QuantizationRecord& record) {
  if (!options.recover_named) return;
  record.warnings.push_back(
      StrCat("the recovery method '", method, "' found nothing in this network to work on"));
}

std::vector<RecoveryStep> RewriteGraph(const RecoveryMethods& methods,
                                       const QuantizeOptions& options, Graph& graph,
                                       std::vector<const char*>& idle) {
  std::vector<RecoveryStep> steps;
  for (const RecoveryRow* row : methods.At(RecoveryStage::kGraph)) {
    const double before = WeightsSnr(graph, options);
    const Rewritten made = row->rewrite(graph, options);
    if (made.changes == 0) idle.push_back(row->name);
    steps.push_back({row->name, before, WeightsSnr(graph, options),
                     StrCat(made.detail, "; dB of an output channel's weights")});
  }
  return steps;
}

}  // namespace requant

#include "quant/recover/recovery.h"

namespace requant {
namespace {

constexpr RecoveryRow kRecoveries[] = {
    {"equalize", RecoveryStage::kGraph, &EqualizeLayers, nullptr},
    {"equalize_relu6", RecoveryStage::kGraph, &EqualizeThroughClips, nullptr},
    {"channel_split", RecoveryStage::kGraph, &SplitChannels, nullptr},
    {"equalize_activations", RecoveryStage::kMeasure, nullptr, nullptr},
    {"round_weights", RecoveryStage::kWeights, nullptr, nullptr},
    {"bias_correction", RecoveryStage::kWeights, nullptr, nullptr},
    {"float_start", RecoveryStage::kChoose, nullptr, &MakeFloatStart},
    {"float_sums", RecoveryStage::kChoose, nullptr, &MakeFloatSums},
    {"float_end", RecoveryStage::kChoose, nullptr, &MakeFloatEnd},
    {"float_answers", RecoveryStage::kChoose, nullptr, &MakeFloatAnswers},
    {"adaround", RecoveryStage::kLearn, nullptr, &MakeAdaRound},
    {"learned_steps", RecoveryStage::kLearn, nullptr, &MakeLearnedSteps},
    {"block_reconstruction", RecoveryStage::kLearn, nullptr, &MakeBlockReconstruction},
    {"empirical_bias", RecoveryStage::kLearn, nullptr, &MakeEmpiricalBias},
};

}  // namespace

std::span<const RecoveryRow> RecoveryTable() { return kRecoveries; }

const RecoveryRow* FindRecovery(std::string_view name) {
  for (const RecoveryRow& row : kRecoveries) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

}  // namespace requant

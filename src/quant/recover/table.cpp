#include "quant/recover/recovery.h"

namespace requant {

// Each in the file of its name.
Rewritten EqualizeLayers(Graph& graph, const QuantizeOptions& options);
Rewritten EqualizeThroughClips(Graph& graph, const QuantizeOptions& options);
Rewritten SplitChannels(Graph& graph, const QuantizeOptions& options);
std::unique_ptr<SampleRewriter> MakeActivationEqualizer(Graph& graph,
                                                        const QuantizationRecord& record);
std::unique_ptr<SampleRewriter> MakeTransformerEqualizer(Graph& graph,
                                                         const QuantizationRecord& record);
void RoundLayer(LayerWeights& layer, LayerNoise& noise);
void RefitScales(LayerWeights& layer, LayerNoise& noise);
void CorrectBias(LayerWeights& layer, LayerNoise& noise);
std::unique_ptr<RecoveryJob> MakeFloatStart(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeFloatSums(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeFloatEnd(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeFloatAnswers(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeSequentialRounding(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeAdaRound(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeLearnedSteps(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeBlockReconstruction(const RecoveryContext& context);
std::unique_ptr<RecoveryJob> MakeEmpiricalBias(const RecoveryContext& context);

namespace {

constexpr RecoveryRow Graphwise(const char* name, RecoveryRow::Rewrite rewrite) {
  return {.name = name, .stage = RecoveryStage::kGraph, .rewrite = rewrite};
}
constexpr RecoveryRow Measured(const char* name, RecoveryRow::Measure measure) {
  return {.name = name, .stage = RecoveryStage::kMeasure, .measure = measure};
}
constexpr RecoveryRow Rounding(const char* name, RecoveryRow::Layer layer) {
  return {.name = name, .stage = RecoveryStage::kRound, .layer = layer};
}
constexpr RecoveryRow Correcting(const char* name, RecoveryRow::Layer layer) {
  return {.name = name, .stage = RecoveryStage::kCorrect, .layer = layer};
}
constexpr RecoveryRow Choosing(const char* name, RecoveryRow::Job job) {
  return {.name = name, .stage = RecoveryStage::kChoose, .job = job};
}
constexpr RecoveryRow Learning(const char* name, RecoveryRow::Job job) {
  return {.name = name, .stage = RecoveryStage::kLearn, .job = job};
}

constexpr RecoveryRow kRecoveries[] = {
    // Cross-layer equalization; the second also through the upper bounds of Clips (ReLU6).
    Graphwise("equalize", &EqualizeLayers),
    Graphwise("equalize_relu6", &EqualizeThroughClips),
    // Outlier channel splitting.
    Graphwise("channel_split", &SplitChannels),
    // SmoothQuant; the strength is chosen by the layers' errors. The first works behind
    // normalizations and through gated products alone, the second on all layers.
    Measured("smooth_quant", &MakeTransformerEqualizer),
    Measured("equalize_activations", &MakeActivationEqualizer),
    // Error feedback over second moments, as GPTQ (OBQ) does it.
    Rounding("round_weights", &RoundLayer),
    // Least squares of the scale for fixed codes, as LQ-Nets fit theirs.
    Rounding("refit_scales", &RefitScales),
    // Analytic bias correction.
    Correcting("bias_correction", &CorrectBias),
    // Mixed precision: what stays in float.
    Choosing("float_start", &MakeFloatStart),
    Choosing("float_sums", &MakeFloatSums),
    Choosing("float_end", &MakeFloatEnd),
    Choosing("float_answers", &MakeFloatAnswers),
    // Least squares and error feedback for what the quantized layers before compute, as GPTAQ does
    // it.
    Learning("sequential_rounding", &MakeSequentialRounding),
    // AdaRound.
    Learning("adaround", &MakeAdaRound),
    // LSQ, on reconstruction loss, without labels.
    Learning("learned_steps", &MakeLearnedSteps),
    // BRECQ with QDrop.
    Learning("block_reconstruction", &MakeBlockReconstruction),
    // Empirical bias correction.
    Learning("empirical_bias", &MakeEmpiricalBias),
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

#include "quant/quantizer.h"

#include <cmath>
#include <optional>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/attention/int8_attention.h"
#include "quant/analyze.h"
#include "quant/assign/assign.h"
#include "quant/assign/joint.h"
#include "quant/bake/baking.h"
#include "quant/calibrate/calibration.h"
#include "quant/graph/prepare.h"
#include "quant/lower/expand_signs.h"
#include "quant/lower/simulated.h"
#include "quant/recover/pipeline.h"
#include "quant/unheeded_options.h"
#include "quant/weights/float_weights.h"
#include "quant/weights/table_rows.h"

namespace requant {
namespace {

/// Said before anybody waits for a calibration.
void CheckWeights(const Graph& graph, const QuantizationRecord& record) {
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization& op = record.operators.at(node->name);
    if (!op.quantized || WeightSlot(*node, op.rule) < 0) continue;
    for (const int slot : {WeightSlot(*node, op.rule), BiasSlot(*node, op.rule)}) {
      const Tensor* values = slot < 0 ? nullptr : node->constant(static_cast<size_t>(slot));
      if (values == nullptr || values->dtype() != DType::kFloat32) continue;
      for (const float value : values->values<float>()) {
        if (std::isfinite(value)) continue;
        Fail(ErrorCode::kInvalidModel,
             StrCat("the weights of '", node->name, "' hold NaN or infinity"),
             {.node = node->name,
              .value = node->inputs[static_cast<size_t>(slot)]->name,
              .hint = "repair the model"});
      }
    }
  }
}

/// Whether the network has operators of attention, and the options keep none of them in float.
bool MayCodeAttention(const Graph& graph, const QuantizationRecord& record) {
  bool any = false;
  for (const auto& node : graph.nodes()) {
    if (!IsAttentionOperator(*node)) continue;
    const OperatorQuantization* op = record.Find(node->name);
    if (op && op->reason == kKeptByOptions) return false;
    any = true;
  }
  return any;
}

/// Quantizes the rows of tables that are not in 8 bits as their readers are. Returns whether there
/// are any.
bool QuantizeFloatTables(Graph& graph, const QuantizationRecord& record) {
  BodyScope scope(graph);
  const auto keep = [&](const Node& node) {
    const OperatorQuantization* op = record.Find(node.name);
    return op && (op->quantized || op->reason == kKeptByOptions);
  };
  return QuantizeTables(scope, {}, keep) > 0;
}

void CheckOptions(const QuantizeOptions& options) {
#define REQUANT_RECOVERY_OPTION(field, name, needs, verb)                  \
  if (options.field < 0) {                                                 \
    Fail(ErrorCode::kInvalidArgument,                                      \
         StrCat(name " is ", options.field, ", and must not be negative"), \
         {.value = (name), .hint = "0 leaves the number to the methods"}); \
  }
#include "quant/options.inc"
  for (const auto& [value, fixed] : options.scales) {
    for (const float scale : fixed.scale) {
      if (scale > 0 && std::isfinite(scale)) continue;
      Fail(ErrorCode::kInvalidQuantization, StrCat("the given scale of '", value, "' is ", scale),
           {.value = value, .hint = "scales are positive numbers"});
    }
    if (fixed.scale.empty() ||
        (!fixed.offset.empty() && fixed.offset.size() != fixed.scale.size())) {
      Fail(ErrorCode::kInvalidQuantization,
           StrCat("the given scales and zero points of '", value, "' do not fit each other"),
           {.value = value});
    }
  }
}

}  // namespace

/// The three stages, one after the other: calibration, baking, recovery.
struct Quantizer::Impl {
  explicit Impl(const QuantizeOptions& given) : options(given), methods(options) {}

  void Prepare(FloatModel model);
  FinishProgress Analyze();
  RecoveryContext Context() {
    return {graph, record, options, calibrated.samples, baking->biases(), &baking->narrow()};
  }

  const QuantizeOptions options;
  const RecoveryMethods methods;
  Graph graph;
  QuantizationRecord record;
  std::optional<Calibration> calibration;
  Calibrated calibrated;  // once finishing has begun
  std::optional<Baking> baking;
  std::optional<RecoveryPipeline> recovery;
  std::unique_ptr<RecoveryJob> analysis;
  bool finished = false;
};

/// What needs no samples: methods that rewrite the graph, and which slots share a grid.
void Quantizer::Impl::Prepare(FloatModel model) {
  graph = std::move(model).Release();
  NormalizeForms(graph);
  record = AssignConfigs(graph, options);
  CheckWeights(graph, record);
  std::vector<const char*> idle;
  std::vector<RecoveryStep> rewritten = RewriteGraph(methods, options, graph, idle);
  const bool tables = options.embeddings && QuantizeFloatTables(graph, record);
  if (!rewritten.empty() || tables) record = AssignConfigs(graph, options);
  for (const char* method : idle) WarnOfIdle(method, options, record);
  record.recovery = std::move(rewritten);
  JoinConfigs(graph, record);
  MarkSimulated(graph, record);
  if (MayCodeAttention(graph, record)) AllowInt8Attention(graph);
}

Quantizer::Quantizer(FloatModel model, const QuantizeOptions& options)
    : impl_(std::make_unique<Impl>(options)) {
  CheckOptions(options);
  impl_->Prepare(std::move(model));
  impl_->calibration.emplace(impl_->graph, impl_->record, impl_->options, impl_->methods);
}

Quantizer::~Quantizer() = default;
Quantizer::Quantizer(Quantizer&&) noexcept = default;
Quantizer& Quantizer::operator=(Quantizer&&) noexcept = default;

const Graph& Quantizer::graph() const { return impl_->graph; }
int Quantizer::passes() const { return impl_->calibration->passes(); }
bool Quantizer::wants_sample(int pass) const { return impl_->calibration->wants_sample(pass); }
std::vector<std::string> Quantizer::observed_values(int pass) const {
  return impl_->calibration->observed_values(pass);
}
void Quantizer::Observe(int pass, const std::string& value, const Tensor& seen,
                        bool channels_last) {
  impl_->calibration->Observe(pass, value, seen, channels_last);
}
void Quantizer::EndSample(int pass) { impl_->calibration->EndSample(pass); }
void Quantizer::Keep(const TensorMap& feeds) { impl_->calibration->Keep(feeds); }
void Quantizer::SetFirstSample(int64_t index) { impl_->calibration->SetFirstSample(index); }
void Quantizer::SetProbing(bool probing) { impl_->calibration->SetProbing(probing); }
std::vector<uint8_t> Quantizer::SaveState(int pass) { return impl_->calibration->SaveState(pass); }
void Quantizer::LoadState(int pass, std::span<const uint8_t> bytes) {
  impl_->calibration->LoadState(pass, bytes);
}
void Quantizer::MergeState(int pass, std::span<const uint8_t> bytes) {
  impl_->calibration->MergeState(pass, bytes);
}

FinishProgress Quantizer::Step() {
  Impl& impl = *impl_;
  if (impl.finished) {
    Fail(ErrorCode::kInvalidArgument, "the calibration is finished",
         {.hint = "begin another to quantize the model again"});
  }
  const bool analyze = impl.options.analyze && impl.record.analysis.empty();
  if (!impl.baking) {
    impl.calibrated = impl.calibration->Finish();
    impl.baking.emplace(impl.graph, impl.record, impl.options, impl.methods, impl.calibrated);
  }
  if (!impl.recovery) {
    FinishProgress progress = impl.baking->Step();
    if (!impl.baking->finished()) return progress;
    impl.recovery.emplace(impl.Context(), impl.methods);
    progress.finished = impl.recovery->finished() && !analyze;
    return progress;
  }
  if (!impl.recovery->finished()) {
    FinishProgress progress = impl.recovery->Step();
    progress.finished = progress.finished && !analyze;
    return progress;
  }
  return analyze ? impl.Analyze() : FinishProgress{"round", 1, 1, true};
}

FinishProgress Quantizer::Impl::Analyze() {
  if (!analysis) analysis = MakeAnalysis(Context());
  FinishProgress progress = analysis->Step();
  if (progress.finished) {
    record.analysis = analysis->detail();
    analysis.reset();
  }
  return progress;
}

QuantizedModel Quantizer::Finish() {
  while (!Step().finished) {
  }
  Impl& impl = *impl_;
  impl.finished = true;
  impl.baking->Finish();
  SettleBodies(impl.graph, impl.options, impl.record);
  NoteUnheededOptions(impl.graph, impl.options, impl.record);
  FindSigns(impl.record);
  impl.calibrated = {};
  return {std::move(impl.graph), std::move(impl.record)};
}

}  // namespace requant

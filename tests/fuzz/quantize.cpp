// Treats any bytes as an ONNX file that is quantized (with options that the bytes choose), run,
// exported and trained, or rejected with an Error. If the model has ordinary numbers, its exports
// give the same bits.
#include <cmath>
#include <cstdint>
#include <memory>
#include <vector>

#include "api/requant.h"
#include "model_data.h"
#include "quant/observers/observer.h"
#include "quant/recover/recovery.h"

using namespace requant;  // NOLINT(google-build-using-namespace)

namespace {

/// Whether the numbers are ordinary: with larger ones biases do not fit int32.
bool IsPlain(const Graph& graph) {
  for (const auto& value : graph.values()) {
    if (!value->is_constant() || value->type.dtype != DType::kFloat32) continue;
    for (const float x : value->constant.values<float>()) {
      if (!(std::abs(x) < 1e6F) || (x != 0 && std::abs(x) < 1e-6F)) return false;
    }
  }
  return true;
}

/// A sample with ordinary numbers, or with invalid ones if `any`.
TensorMap SampleOf(const Graph& graph, const std::vector<uint8_t>& bytes, bool any) {
  TensorMap feeds = fuzz::BytesAsFeeds(graph, bytes);
  for (auto& [name, tensor] : feeds) {
    if (any || tensor.dtype() != DType::kFloat32) continue;
    float* out = tensor.data<float>();
    for (int64_t i = 0; i < tensor.count(); ++i) {
      out[i] = std::isfinite(out[i]) ? std::fmod(out[i], 4.0F) : 0.5F;
    }
  }
  return feeds;
}

QuantizeOptions OptionsOf(uint32_t widths, uint32_t methods) {
  constexpr int kBits[] = {8, 4, 2, 7};
  QuantizeOptions options;
  options.global.weights.bits = kBits[widths & 3];
  options.global.activations.bits = kBits[widths >> 2 & 3];
  options.global.activations.symmetric = (widths & 16) != 0;
  options.global.weights.per_channel = (widths & 32) == 0;
  options.float_outputs = (widths & 64) != 0;
  const auto observers = ObserverTable();
  options.global.activations.observer = observers[methods % 16 % observers.size()].name;
  const auto recoveries = RecoveryTable();
  options.recover = {recoveries[methods / 16 % recoveries.size()].name};
  options.recover_steps = 2;
  return options;
}

std::vector<Tensor> Exported(const Graph& graph, const TensorMap& feeds) {
  const auto file = std::make_shared<std::vector<uint8_t>>(WriteOnnx(graph));
  return Session(PrepareForRun(ReadOnnx({file, *file})), {}).Run(feeds);
}

/// Trains with two batches of one sample; the result must run.
void Train(const QuantizedModel& model, const TensorMap& feeds) {
  Trainer trainer(model, {});
  for (int batch = 0; batch < 2; ++batch) {
    trainer.Add(feeds, -1);
    while (!trainer.Advance(1e-3).finished) {
    }
  }
  Session(PrepareForRun(LowerToInteger(trainer.Finish())), {}).Run(feeds);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto bytes = std::make_shared<std::vector<uint8_t>>(data, data + size);
  uint32_t hash = 0;
  for (const uint8_t byte : *bytes) hash = hash * 31 + byte;
  try {
    const Graph graph = ReadOnnx({bytes, *bytes});
    if (!fuzz::IsSmall(graph)) return 0;
    Calibrator calibrator(graph, OptionsOf(hash & 255, hash >> 8 & 255));
    if (!fuzz::IsSmall(calibrator.graph())) return 0;
    const bool any = (hash & 128) != 0 || !IsPlain(graph);
    const TensorMap feeds = SampleOf(graph, *bytes, any);
    for (int pass = 0; pass < calibrator.passes(); ++pass) calibrator.Add(pass, feeds);
    const QuantizedModel model = calibrator.Finish();
    const auto outputs = Session(PrepareForRun(LowerToInteger(model)), {}).Run(feeds);
    const auto qdq = Exported(ToQdq(model), feeds), qoperator = Exported(ToQOperator(model), feeds);
    if (!any) {
      fuzz::ExpectSame(qdq, outputs);
      fuzz::ExpectSame(qoperator, outputs);
    }
    Train(model, feeds);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kInternal) __builtin_trap();
  }
  return 0;
}

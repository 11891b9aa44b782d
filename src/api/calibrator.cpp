#include "api/calibrator.h"

#include <algorithm>
#include <utility>

#include "api/prepare.h"
#include "base/error.h"
#include "base/json.h"
#include "base/str_cat.h"
#include "session/taps.h"

namespace requant {
namespace {

FloatModel OptimizedFloatOf(const Graph& graph) {
  if (IsQuantized(graph)) {
    Fail(ErrorCode::kInvalidArgument, "the model is already quantized",
         {.hint = "quantize the float model it was made from; a .tflite file of dynamic range is "
                  "a float model when it is loaded with dynamicRange: 'float'"});
  }
  return OptimizedFloat(graph);
}

/// Throws if all inputs are empty. Single ones may be, such as a decoder's past at first.
void CheckNotEmpty(const TensorMap& feeds) {
  const auto is_empty = [](const auto& feed) { return feed.second.count() == 0; };
  if (feeds.empty() || !std::all_of(feeds.begin(), feeds.end(), is_empty)) return;
  const auto& [name, feed] = *feeds.begin();
  Fail(ErrorCode::kInvalidArgument,
       StrCat("a sample has nothing in it: \"", name, "\" is ", ShapeToString(feed.shape())),
       {.value = name, .hint = "leave empty samples out of the dataset"});
}

}  // namespace

Calibrator::Calibrator(ParallelRunner* runner, FloatModel optimized)
    : optimized_(std::move(optimized)), runner_(runner) {}

Calibrator::Calibrator(const Graph& float_graph, const QuantizeOptions& options,
                       ParallelRunner* runner)
    : Calibrator(runner, OptimizedFloatOf(float_graph)) {
  Begin(options);
}

Calibrator Calibrator::Unbegun(const Graph& float_graph, ParallelRunner* runner) {
  return {runner, OptimizedFloatOf(float_graph)};
}

void Calibrator::Begin(const QuantizeOptions& options) {
  quantizer_.emplace(std::move(*optimized_), options);
  optimized_.reset();
}

void Calibrator::Add(int pass, const TensorMap& feeds) {
  if (pass == 0) quantizer_->Keep(feeds);
  Show(pass, feeds);
}

void Calibrator::Probe(const TensorMap& feeds, int64_t first_sample) {
  quantizer_->SetProbing(true);
  Show(0, feeds);
  quantizer_->SetProbing(false);
  quantizer_->SetFirstSample(first_sample);
}

/// No sample comes after the first step, so the float session is dropped: its packed weights make
/// room.
FinishProgress Calibrator::Step() {
  session_.reset();
  session_pass_ = -1;
  return quantizer_->Step();
}

QuantizedModel Calibrator::Finish() {
  session_.reset();
  QuantizedModel model = quantizer_->Finish();
  KeepRunnable(model, feeds_);
  return model;
}

void Calibrator::Show(int pass, const TensorMap& feeds) {
  CheckNotEmpty(feeds);
  if (pass != session_pass_) {
    session_.reset();
    observed_ = quantizer_->observed_values(pass);
    std::sort(observed_.begin(), observed_.end());
    SessionOptions options;
    options.runner = runner_;
    options.plan.visit = true;
    options.plan.portable = true;  // makes the same file on every machine
    session_ = std::make_unique<Session>(WithTaps(graph(), observed_), options);
    session_pass_ = pass;
  }
  if (!quantizer_->wants_sample(pass)) return quantizer_->EndSample(pass);
  for (const std::string& name : observed_) {
    const auto feed = feeds.find(name);
    // Other types are left to the session, which reports them.
    if (feed != feeds.end() && feed->second.dtype() == DType::kFloat32) {
      quantizer_->Observe(pass, name, feed->second);
    }
  }
  session_->Visit(feeds, [&](size_t output, const Tensor& tensor, bool channels_last) {
    const std::string& name = session_->graph().outputs()[output]->name;
    if (std::binary_search(observed_.begin(), observed_.end(), name) && !feeds.contains(name)) {
      quantizer_->Observe(pass, name, tensor, channels_last);
    }
  });
  quantizer_->EndSample(pass);
  feeds_ = TypesOf(feeds);
}

WeightsCalibrator::WeightsCalibrator(const Graph& graph, const CalibratedOptions& options,
                                     ParallelRunner* runner, const RotationOptions* rotation)
    : options_(options), weights_(graph.Clone(), options), source_(graph.Clone()), runner_(runner) {
  if (rotation == nullptr) return;
  rotation_.emplace(graph.Clone(), *rotation);
  rotation_passes_ = rotation_->passes();
  rotating_ = rotation_passes_ > 0;
  if (!rotating_) Rotate();
}

int WeightsCalibrator::passes() const { return rotation_passes_ + weights_.passes(); }

void WeightsCalibrator::Rotate() {
  rotating_ = false;
  source_ = rotation_->Finish(true);
  weights_ = CalibratedWeights(source_.Clone(), options_);
}

void WeightsCalibrator::Add(int pass, const TensorMap& feeds) {
  const bool rotating = pass < rotation_passes_;
  if (!rotating && rotating_) Rotate();
  const std::vector<std::string>& observed =
      rotating ? rotation_->observed_values(pass)
               : weights_.observed_values(pass - rotation_passes_);
  if (pass != pass_ || !session_) {
    SessionOptions options;
    options.runner = runner_;
    options.plan.portable = true;  // makes the same file on every machine
    session_ = std::make_unique<Session>(PrepareForRun(WithTaps(source_, observed)), options);
    pass_ = pass;
  }
  const std::vector<Tensor> results = session_->Run(feeds);
  const auto& outputs = session_->graph().outputs();
  const auto observe = [&](const std::string& name, const Tensor& seen) {
    rotating ? rotation_->Observe(name, seen) : weights_.Observe(name, seen);
  };
  for (const std::string& name : observed) {
    const auto feed = feeds.find(name);
    if (feed != feeds.end()) {
      observe(name, feed->second);
      continue;
    }
    for (size_t i = 0; i < outputs.size(); ++i) {
      if (outputs[i]->name != name) continue;
      observe(name, results[i]);
      break;
    }
  }
}

bool WeightsCalibrator::Step() {
  const bool rotating = pass_ < rotation_passes_;
  if (session_) {
    session_.reset();
    rotating ? rotation_->EndPass(pass_) : weights_.EndPass(pass_ - rotation_passes_);
  }
  if (!rotating) return weights_.Step();
  if (rotation_->Step()) return true;
  if (pass_ + 1 == rotation_passes_ && rotating_) Rotate();
  return false;
}

Graph WeightsCalibrator::Finish(FloatWeights* left) {
  if (rotating_) Rotate();
  return weights_.Finish(left);
}

std::string WeightsCalibrator::LayersJson() const {
  JsonWriter json;
  json.BeginArray();
  for (const CalibratedLayer& layer : weights_.layers()) {
    const RotatedLayer* rotated = nullptr;
    if (rotation_) {
      for (const RotatedLayer& one : rotation_->layers()) {
        if (one.name == layer.name) rotated = &one;
      }
    }
    json.BeginObject();
    json.Key("name").String(layer.name);
    json.Key("calibrated").Bool(layer.calibrated);
    json.Key("detail").String(rotated ? StrCat(rotated->detail, "; ", layer.detail) : layer.detail);
    if (layer.calibrated) {
      json.Key("before").Number(layer.before);
      json.Key("after").Number(layer.after);
    }
    json.EndObject();
  }
  json.EndArray();
  return json.text();
}

Graph RotateForWeights(const Graph& graph, const RotationOptions& options,
                       std::string& layers_json) {
  std::vector<RotatedLayer> layers;
  Graph out = RotateWeights(graph, options, layers);
  JsonWriter json;
  json.BeginArray();
  for (const RotatedLayer& layer : layers) {
    json.BeginObject();
    json.Key("name").String(layer.name);
    json.Key("calibrated").Bool(false);
    json.Key("detail").String(layer.detail);
    json.EndObject();
  }
  json.EndArray();
  layers_json = json.text();
  return out;
}

}  // namespace requant

#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/keep_runnable.h"
#include "quant/quantizer.h"
#include "quant/rotate/weight_rotation.h"
#include "quant/weights/calibrated_weights.h"
#include "session/session.h"

namespace requant {

/// Shows calibration samples to a Quantizer. It owns the float sessions that tap the values.
class Calibrator {
 public:
  /// Optimizes a copy of the graph and begins. Throws kInvalidArgument for a model that is already
  /// quantized, and what Quantizer throws. `runner` is as in SessionOptions.
  Calibrator(const Graph& float_graph, const QuantizeOptions& options,
             ParallelRunner* runner = nullptr);
  /// Optimizes a copy of the graph. Begin() comes before everything but graph().
  static Calibrator Unbegun(const Graph& float_graph, ParallelRunner* runner);

  /// Makes the quantizer; once. Throws what Quantizer throws.
  void Begin(const QuantizeOptions& options);
  /// The optimized float graph that samples run through; options and record refer to its node
  /// names.
  const Graph& graph() const { return quantizer_ ? quantizer_->graph() : optimized_->graph(); }
  int passes() const { return quantizer_->passes(); }
  void Add(int pass, const TensorMap& feeds);
  /// Shows sample 0 to a shard that begins with a later one (`first_sample`).
  void Probe(const TensorMap& feeds, int64_t first_sample);
  std::vector<uint8_t> SaveState(int pass) { return quantizer_->SaveState(pass); }
  void LoadState(int pass, std::span<const uint8_t> bytes) { quantizer_->LoadState(pass, bytes); }
  void MergeState(int pass, std::span<const uint8_t> bytes) { quantizer_->MergeState(pass, bytes); }
  FinishProgress Step();
  /// Returns the model, after KeepRunnable() has checked it.
  QuantizedModel Finish();

 private:
  Calibrator(ParallelRunner* runner, FloatModel optimized);
  void Show(int pass, const TensorMap& feeds);

  std::optional<FloatModel> optimized_;  // until Begin()
  std::optional<Quantizer> quantizer_;
  ParallelRunner* runner_;
  int session_pass_ = -1;
  std::vector<std::string> observed_;
  std::unique_ptr<Session> session_;
  std::vector<FeedType> feeds_;  // types of the latest sample
};

/// Shows samples to CalibratedWeights, and before, if there is one, to a WeightRotation. It owns
/// the float sessions that tap the products' inputs. Pass by pass, Add() comes for every sample,
/// then Step() until it returns false; then Finish().
class WeightsCalibrator {
 public:
  /// Throws kInvalidArgument for options out of range. `runner` is as in SessionOptions.
  /// `rotation`, if given, rotates the inputs of products first.
  WeightsCalibrator(const Graph& graph, const CalibratedOptions& options,
                    ParallelRunner* runner = nullptr, const RotationOptions* rotation = nullptr);

  /// With a rotation the number may change with the first Step() behind its passes.
  int passes() const;
  int64_t done() const { return weights_.done() + (rotation_ ? rotation_->done() : 0); }
  int64_t total() const { return weights_.total() + (rotation_ ? rotation_->total() : 0); }
  void Add(int pass, const TensorMap& feeds);
  bool Step();
  /// The quantized model; lists in `left` what stays float. Call it once.
  Graph Finish(FloatWeights* left);
  /// JSON: [{ name, calibrated, detail, before, after }]
  std::string LayersJson() const;

 private:
  void Rotate();

  CalibratedOptions options_;
  std::optional<WeightRotation> rotation_;
  bool rotating_ = false;  // the passes of rotation_ are not over
  int rotation_passes_ = 0;
  CalibratedWeights weights_;
  Graph source_;  // samples run through the graph as it was, or with its rotations
  ParallelRunner* runner_;
  int pass_ = -1;
  std::unique_ptr<Session> session_;
};

/// RotateWeights(); `layers_json` becomes a list as of WeightsCalibrator::LayersJson.
Graph RotateForWeights(const Graph& graph, const RotationOptions& options,
                       std::string& layers_json);

}  // namespace requant

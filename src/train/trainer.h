// Quantization-aware training: a quantized model goes on learning with its grids in place.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/quantizer.h"
#include "train/options.h"

namespace requant {

struct TrainProgress {
  int64_t done = 0, total = 1;
  bool finished = false;  // the batch; what follows is valid then
  double loss = 0;        // mean of the samples
  int64_t correct = 0, labelled = 0;
};

/// Usage: for every batch Add() its samples, then Advance() until it is finished; Freeze() when the
/// last part begins; then Finish().
class Trainer {
 public:
  /// Throws kInvalidArgument for bad options, kUnsupported for a model without a layer that
  /// gradients reach.
  Trainer(const QuantizedModel& model, const TrainOptions& options);
  ~Trainer();
  Trainer(Trainer&&) noexcept;
  Trainer& operator=(Trainer&&) noexcept;

  /// A sample of the next batch, which is copied. `label`: index of the right class; below 0: not
  /// known. Throws kInvalidArgument for NaN or infinity and for feeds that are missing.
  void Add(const TensorMap& feeds, int64_t label);
  /// Forgets what was added since the last batch.
  void Clear();
  /// One operator of the batch forward or backward. The last one changes the weights, at that
  /// learning rate. Throws kInvalidArgument when the loss is no number any more.
  TrainProgress Advance(double rate);
  /// Normalization by the batch ends: after measured_batches more the layers have the weights and
  /// biases that are deployed.
  void Freeze();
  /// The trained model: weights, scales and biases are new, everything else is as it was. Once.
  QuantizedModel Finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace requant

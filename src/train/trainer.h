// Quantization-aware training: trains a quantized model further with its grids in place.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "interpret/interpreter.h"
#include "quant/quantizer.h"
#include "train/options.h"

namespace requant {

struct TrainProgress {
  int64_t done = 0, total = 1;
  bool finished = false;  // the batch is done, and the members below are valid
  double loss = 0;        // mean over the samples
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

  /// Adds a sample of the next batch (copied). `label` is the index of the right class, or below 0
  /// if unknown. Throws kInvalidArgument for NaN or infinity and for missing feeds.
  void Add(const TensorMap& feeds, int64_t label);
  /// Discards the samples added since the last batch.
  void Clear();
  /// Runs one operator of the batch forward or backward. The last call updates the weights at the
  /// given learning rate. Throws kInvalidArgument if the loss or a weight is infinite or NaN.
  TrainProgress Advance(double rate);
  /// Ends the normalization by the batch: after measured_batches more batches the layers have the
  /// weights and biases that will be deployed.
  void Freeze();
  /// Everything that training has changed, as bytes: weights, scales, normalization, observers and
  /// the optimizers. Call it between batches.
  std::vector<uint8_t> State();
  /// Goes on where State() was called, in a trainer of the same model and options. All that follows
  /// has the bits that it would have had there. Throws kInvalidArgument for a state of another
  /// model, of other options or of another version; the trainer is of no use then.
  void Restore(std::span<const uint8_t> state);
  /// The model as Finish() would give it now. Training goes on as if nothing had happened.
  QuantizedModel Snapshot();
  /// The trained model, with new weights, scales and biases and everything else unchanged. Call it
  /// once. `note` ends the line about the training in the record.
  QuantizedModel Finish(std::string_view note = {});

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace requant

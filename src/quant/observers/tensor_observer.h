// An observer of one tensor, or one of each channel, as an object: what a slot has during
// calibration, for programs that have no network.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "quant/config/settings.h"
#include "quant/observers/observer.h"
#include "tensor/tensor.h"

namespace requant {

/// Shows a tensor to the observers of its channels, those of axis `axis`.
void ObserveChannels(std::span<const std::unique_ptr<Observer>> channels, int axis, int pass,
                     const Tensor& tensor);

class TensorObserver {
 public:
  /// Settings of an activation; `observer` names the kind. Throws what CheckSettings and
  /// MakeObserver throw, and kInvalidArgument for 'auto' per channel.
  explicit TensorObserver(const TensorSettings& settings);

  /// How often every tensor must be shown: 1, or 2 for observers of a histogram.
  int passes() const { return static_cast<int>(seen_.size()); }
  /// Shows a tensor of float32, which counts as one sample. Throws kTypeMismatch for another type;
  /// kInvalidArgument for a pass that does not exist or is over, and for NaN or infinity, naming
  /// the index; kShapeMismatch for another number of channels than before.
  void Observe(int pass, const Tensor& tensor);
  /// Adds what `later`, an observer of the same settings, saw after this one in the pass that both
  /// are in. The result is that of one observer that saw all, to the last bit. Throws
  /// kInvalidArgument for other settings or another pass, and for a second pass over another range.
  void Merge(const TensorObserver& later);
  /// A copy of everything that was seen.
  TensorObserver Clone() const;
  /// Forgets everything.
  void Reset();

  /// The range of every channel. Throws kInvalidArgument until every pass has seen a tensor.
  std::vector<Range> Ranges() const;
  /// The grid that calibration makes of these ranges.
  TensorQuantizationConfig Grid() const;

 private:
  void MakeChannels(size_t count);
  void CheckPasses() const;

  TensorSettings settings_;
  TensorQuantizationConfig config_;
  std::vector<std::unique_ptr<Observer>> channels_;  // empty until their number is known
  std::vector<int64_t> seen_;                        // tensors, by pass
};

}  // namespace requant

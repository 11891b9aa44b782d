// Observers watch the values of one tensor during calibration and propose its range. They need
// bounded memory, whatever the amount of data, and merge: two observers that saw two halves of the
// data become the one that saw all of it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "quant/tensor_quantization_config.h"

namespace requant {

struct Range {
  double min = 0;
  double max = 0;
};

class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// How often the data must be shown.
  virtual int passes() const { return 1; }
  /// Finite values only.
  virtual void Observe(int pass, std::span<const float> values) = 0;
  virtual void EndSample(int pass) { (void)pass; }
  /// Adds what `later`, an observer of the same kind and settings, saw after this one. Observers of
  /// several passes are merged after each of them. Throws kInvalidArgument for another kind.
  virtual void Merge(const Observer& later) = 0;
  /// The proposed range, 0 included. Only after all passes.
  virtual Range Get() const = 0;
};

/// By config.observer. Throws kInvalidArgument for an unknown name, listing the known ones.
std::unique_ptr<Observer> MakeObserver(const TensorQuantizationConfig& config);

/// One row of the table of observers.
struct ObserverRow {
  const char* name;
  bool for_weights;
  std::unique_ptr<Observer> (*make)(const TensorQuantizationConfig& config);
};
std::span<const ObserverRow> ObserverTable();
/// nullptr for an unknown name.
const ObserverRow* FindObserver(std::string_view name);

std::unique_ptr<Observer> MakeMinMax(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeMovingAverage(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakePercentile(const TensorQuantizationConfig& config);
std::unique_ptr<Observer> MakeMse(const TensorQuantizationConfig& config);

}  // namespace requant

// Observers watch the values of one tensor during calibration and propose its range. They need
// bounded memory for any amount of data, can be merged, and can be saved as bytes: two observers
// that saw two halves of the data become the one that saw all of it, to the last bit.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "quant/config/tensor_quantization_config.h"
#include "quant/observers/state_bytes.h"

namespace requant {

struct Range {
  double min = 0;
  double max = 0;
};

struct RangeProposal {
  const char* observer;
  Range range;
};

class Observer {
 public:
  Observer() = default;
  Observer(const Observer&) = delete;
  Observer& operator=(const Observer&) = delete;
  virtual ~Observer() = default;

  /// Name of the row that made it; only equal kinds merge.
  virtual const char* kind() const = 0;
  /// How often the data must be shown.
  virtual int passes() const { return 1; }
  /// Shows finite values. `row` tells how many values at the end of the shape belong together
  /// (classes).
  virtual void Observe(int pass, std::span<const float> values, int64_t row) = 0;
  void Observe(int pass, std::span<const float> values) {
    Observe(pass, values, static_cast<int64_t>(values.size()));
  }
  /// Whether AddRange() of the least and the greatest value has the effect of Observe().
  virtual bool takes_range() const { return false; }
  virtual void AddRange(const Range& range) { (void)range; }
  virtual void EndSample(int pass) { (void)pass; }
  /// Adds what `later`, an observer of the same kind and settings, saw in that pass after this one.
  /// Throws kInvalidArgument for another kind.
  void Merge(const Observer& later, int pass);
  /// Writes or reads what that pass gathered.
  virtual void Fields(StateBytes& state, int pass) = 0;
  /// The proposed range; call it only after all passes.
  virtual Range Get() const = 0;
  /// How many samples are kept to choose among the ranges of an observer that proposes several.
  virtual int64_t wanted_samples() const { return 0; }
  /// Its proposals, the range of Get() first; none of others. Only after all passes.
  virtual std::vector<RangeProposal> Proposals() const { return {}; }

 protected:
  virtual void MergeSame(const Observer& later, int pass) = 0;
};

/// Makes the observer named by config.observer. Throws kInvalidArgument for an unknown name,
/// listing the known ones.
std::unique_ptr<Observer> MakeObserver(const TensorQuantizationConfig& config);

/// The magnitudes of a channel's weights, not all 0, and one factor for each: how much its error
/// counts. Without factors all count the same.
struct Magnitudes {
  std::vector<float>& values;  // functions may reorder them
  const std::vector<double>& importance;
};

/// The weights of a channel, and the factors of their errors as in Magnitudes.
struct ChannelWeights {
  const std::vector<float>& values;
  const std::vector<double>& importance;
};

/// One row of the table of observers.
struct ObserverRow {
  const char* name;
  std::unique_ptr<Observer> (*make)(const TensorQuantizationConfig& config);
  /// Finds the magnitude that the largest code of a channel's weights gets, which are seen once and
  /// whole, where the grid is symmetric; nullptr for observers of activations only.
  double (*of_weights)(const Magnitudes& magnitudes, const TensorQuantizationConfig& config);
  /// Whether `of_weights` wants importance, which the layer's inputs tell.
  bool weighs_inputs = false;
  /// Finds the range of a channel's weights where the grid is affine; nullptr: the observer itself
  /// finds it.
  Range (*range_of_weights)(const ChannelWeights& weights,
                            const TensorQuantizationConfig& config) = nullptr;
};
std::span<const ObserverRow> ObserverTable();
/// The row of that name, or nullptr.
const ObserverRow* FindObserver(std::string_view name);

}  // namespace requant

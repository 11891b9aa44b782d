// Separates Concats of operands with unlike ranges, where one scale for all would leave the small
// ones nothing.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quant/config/record.h"
#include "quant/observers/observer.h"

namespace requant {

/// What SeparateConcats() did to a graph, and what the quantizer must do about it.
struct SeparatedConcats {
  /// Operators that stay in float, with the reason.
  std::map<std::string, std::string> reasons;
  /// Ranges of values that were added or renamed, which nobody has observed.
  std::map<std::string, Range> ranges;
  /// For each layer, the factors that the channels of its input got, whose inverses its weights
  /// have.
  std::map<std::string, std::vector<double>> factors;
  /// One line about it for the record; empty when nothing was done.
  std::string detail;
};

/// The ranges of a value's channels, 0 included.
class ChannelRanges {
 public:
  explicit ChannelRanges(int axis) : axis_(axis) {}
  /// Observes a tensor in ONNX's order. Throws kShapeMismatch when the number of channels changes.
  void Observe(const Tensor& tensor);
  void Merge(const ChannelRanges& later);
  void Fields(StateBytes& state) { state.List(ranges_); }
  /// The range of the whole value with channel c times factors[c]; nullopt for another number of
  /// channels.
  std::optional<Range> Times(const std::vector<double>& factors) const;

 private:
  int axis_;
  std::vector<Range> ranges_;  // empty before the first sample
};

/// Float values whose ranges SeparateConcats() may ask for, beside those of the record's slots.
struct ValuesAroundConcats {
  /// The operands of every Concat, and the values that operators which move or select make of its
  /// result.
  std::vector<const Value*> whole;
  /// Averages of the joined channels, whose ranges do not follow from the operands', with their
  /// axes.
  std::map<const Value*, int> by_channel;
};
ValuesAroundConcats FindValuesAroundConcats(const Graph& graph, const QuantizationRecord& record);

/// Ranges that calibration has seen.
struct SeenRanges {
  /// nullopt where the range of a value is unknown or given by the user; its Concat then stays as
  /// it is.
  std::function<std::optional<Range>(const Value&)> whole;
  /// nullptr for values that are not observed by channel.
  std::function<const ChannelRanges*(const Value&)> by_channel;
};

/// Separates Concats. `record` must be joined. Afterwards the graph computes the same, up to the
/// rounding of weights in float32.
SeparatedConcats SeparateConcats(Graph& graph, const QuantizationRecord& record,
                                 const SeenRanges& seen);

}  // namespace requant

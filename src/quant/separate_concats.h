// A Concat of operands whose ranges are unlike: one scale for all of them would leave nothing of
// the small ones.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quant/observers/observer.h"
#include "quant/record.h"

namespace requant {

/// What SeparateConcats() did to a graph, and what the quantizer has to do because of it.
struct SeparatedConcats {
  /// Operators that stay in float, with the reason.
  std::map<std::string, std::string> reasons;
  /// Ranges of the values that were added or renamed: nobody has observed them.
  std::map<std::string, Range> ranges;
  /// By layer: the factor that each channel of its input got, and whose inverse its weights have.
  std::map<std::string, std::vector<double>> factors;
  /// One line about it for the record; empty when nothing was done.
  std::string detail;
};

/// The ranges of a value's channels, 0 included.
class ChannelRanges {
 public:
  explicit ChannelRanges(int axis) : axis_(axis) {}
  /// In ONNX's order. Throws kShapeMismatch for another number of channels than before.
  void Observe(const Tensor& tensor);
  void Merge(const ChannelRanges& later);
  void Fields(StateBytes& state) { state.List(ranges_); }
  /// Of the whole value, channel c times factors[c]; nothing for another number of channels.
  std::optional<Range> Times(const std::vector<double>& factors) const;

 private:
  int axis_;
  std::vector<Range> ranges_;  // empty before the first sample
};

/// Float values whose ranges SeparateConcats() may ask for beside those of the record's slots.
struct ValuesAroundConcats {
  /// The operands of every Concat, and what operators that move or select values make of its
  /// result.
  std::vector<const Value*> whole;
  /// Averages of the joined channels, whose ranges do not follow from the operands', and the axis.
  std::map<const Value*, int> by_channel;
};
ValuesAroundConcats FindValuesAroundConcats(const Graph& graph, const QuantizationRecord& record);

/// What calibration has seen.
struct SeenRanges {
  /// Nothing where the range of a value is not known or was given by the user: its Concat stays as
  /// it is then.
  std::function<std::optional<Range>(const Value&)> whole;
  /// nullptr for values that are not observed by channel.
  std::function<const ChannelRanges*(const Value&)> by_channel;
};

/// `record`: joined. The graph computes the same afterwards, up to the rounding of weights in
/// float32.
SeparatedConcats SeparateConcats(Graph& graph, const QuantizationRecord& record,
                                 const SeenRanges& seen);

}  // namespace requant

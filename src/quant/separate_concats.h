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

/// Float values whose ranges SeparateConcats() may ask for beside those of the record's slots: the
/// operands of every Concat, and what operators that move or select values make of its result.
std::vector<const Value*> ValuesAroundConcats(const Graph& graph, const QuantizationRecord& record);

/// `record`: joined. `range_of`: the calibrated range of a float value; nothing where it is not
/// known or was given by the user, and then its Concat stays as it is. The graph computes the same
/// afterwards, up to the rounding of weights in float32.
SeparatedConcats SeparateConcats(Graph& graph, const QuantizationRecord& record,
                                 const std::function<std::optional<Range>(const Value&)>& range_of);

}  // namespace requant

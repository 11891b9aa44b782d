// Finds masks: positions of values that get numbers so low (or so high) that readers ignore them.
#pragma once

#include <map>
#include <set>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

struct Masks {
  /// Operators that apply a mask to data. A scale that covered the masked positions' numbers would
  /// leave the data no codes, so the quantizer keeps these operators in float.
  std::set<const Node*> nodes;
  /// Values that have such numbers beside data, with the least magnitude of these numbers.
  std::map<const Value*, float> filled;
};

/// Finds masks by what they do: a sum, a difference or a selection that only softmaxes read
/// (Softmax, LogSoftmax, the mask of an attention), also behind operators that move, clamp or
/// scale; and, whoever reads it, one with an operand of numbers that are small or beyond 9,000.
/// `soi` are values that are no data (quant/graph/soi.h); `statistics` are operators of
/// normalizations written out (quant/graph/statistics.h), softmaxes among them. The nodes must be
/// in order.
Masks FindMasks(const Graph& graph, const std::set<const Value*>& soi,
                const std::set<const Node*>& statistics);

/// A copy without the numbers of masked positions, which the outermost of the others replaces.
Tensor WithoutMasked(const Tensor& tensor, float fill);

}  // namespace requant

// What masks values: places that get so low (or so high) a number that what reads them takes no
// notice of them.
#pragma once

#include <map>
#include <set>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

struct Masks {
  /// Operators that put a mask on data. A scale that had the numbers of masked places would leave
  /// the data no codes, so that the quantizer keeps these operators in float.
  std::set<const Node*> nodes;
  /// Values that hold such numbers beside data, with the least magnitude of those.
  std::map<const Value*, float> filled;
};

/// Masks by what they do: a sum, a difference or a selection that only softmaxes (Softmax and its
/// kin, the mask of an attention) read, behind operators that move, clamp or scale; and, whoever
/// reads it, one with an operand of numbers that are small or beyond 9,000. `soi`: values that are
/// no data (quant/soi.h); `statistics`: operators of normalizations written out
/// (quant/statistics.h), a softmax among them. The nodes must be in order.
Masks FindMasks(const Graph& graph, const std::set<const Value*>& soi,
                const std::set<const Node*>& statistics);

/// A copy without the numbers of masked places: the outermost of the others stands for them.
Tensor WithoutMasked(const Tensor& tensor, float fill);

}  // namespace requant

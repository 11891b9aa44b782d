// Chooses scales of sums with which 8-bit additions are fast.
#pragma once

#include <functional>

#include "ir/graph.h"
#include "quant/config/record.h"

namespace requant {

/// Widens the steps of what an Add or Sub reads and writes, by at most 2 %, so that the operands'
/// are k / 2^n of the result's with k < 128 and n <= 7 (MakeQAddSimple of numeric/qadd.h). Zero
/// points stay, so ranges only grow. Sums that would need more, with a constant, fewer than 5 bits,
/// a grid of powers of two or one that no integer operator has, stay unchanged. `given` tells, by
/// config index, which scales must never change.
void SimplifySums(const Graph& graph, QuantizationRecord& record,
                  const std::function<bool(int)>& given);

}  // namespace requant

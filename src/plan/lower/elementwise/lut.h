#pragma once

#include <array>

#include "plan/builder.h"

namespace requant {

using ByteTable = std::array<uint8_t, 256>;

/// The codes that a table makes of `codes`; its entries have type `dtype`.
CodeRange CodesOfTable(CodeRange codes, const ByteTable& table, DType dtype);
/// Appends out = table[in], elementwise, in the layout of the input.
Step& AddLutStep(PlanBuilder& builder, const Node& node, const Value* input, const Value* output,
                 const ByteTable& table);

}  // namespace requant

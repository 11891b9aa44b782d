#pragma once

#include <array>

#include "plan/builder.h"

namespace requant {

using ByteTable = std::array<uint8_t, 256>;

/// What a table makes of codes; `dtype` is that of its entries.
CodeRange CodesOfTable(CodeRange codes, const ByteTable& table, DType dtype);
/// Appends out = table[in], elementwise, in the layout that the input has.
Step& AddLutStep(PlanBuilder& builder, const Node& node, const Value* input, const Value* output,
                 const ByteTable& table);

}  // namespace requant

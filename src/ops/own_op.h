// Operators that a user has added to the table.
#pragma once

#include <vector>

#include "ops/op.h"

namespace requant {

/// Their rows, which FindOp finds behind those of the table. Whoever adds a row keeps it alive.
std::vector<const OpDef*>& OwnOps();

}  // namespace requant

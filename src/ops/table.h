// One array of rows for each file of a family; table.cpp strings together those of families.inc.
#pragma once

#include <span>

#include "ops/op.h"

namespace requant {

#define FAMILY(name) std::span<const OpDef> name##Ops();
#include "ops/families.inc"
#undef FAMILY

}  // namespace requant

#include "ops/table.h"

#include <vector>

namespace requant {

std::span<const OpDef* const> OpTable() {
  static const std::vector<const OpDef*> table = [] {
#define FAMILY(name) name##Ops(),
    const std::span<const OpDef> families[] = {
#include "ops/families.inc"
    };
#undef FAMILY
    std::vector<const OpDef*> rows;
    for (const std::span<const OpDef> family : families) {
      for (const OpDef& row : family) rows.push_back(&row);
    }
    return rows;
  }();
  return table;
}

}  // namespace requant

// Sizes of last axes that follow from the operators, where types alone do not tell.
#pragma once

#include <cstdint>
#include <map>

#include "ir/graph.h"

namespace requant {

/// Finds the size of a value's last axis. Exporters compute shapes of Reshape and Expand by Concat
/// of what the input's shape gives and of constants; the last part of such a shape is enough here.
class LastDims {
 public:
  /// The size, or -1 if it is not known. Types of the graph are known.
  int64_t Of(const Value* value);

 private:
  int64_t Find(const Value& value);
  std::map<const Value*, int64_t> known_;
};

}  // namespace requant

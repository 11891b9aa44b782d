#include "ir/fix_dimensions.h"

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {

void FixDimensions(Graph& graph, const std::map<std::string, int64_t>& sizes) {
  for (const auto& [symbol, size] : sizes) {
    if (size >= 0) continue;
    Fail(ErrorCode::kInvalidArgument, StrCat("dimension '", symbol, "' cannot be ", size),
         {.value = symbol, .hint = "give a size of at least 0"});
  }
  for (const auto& value : graph.values()) {
    if (!value->type.shape) continue;
    for (Dim& dim : *value->type.shape) {
      if (dim.known()) continue;
      const auto found = sizes.find(dim.symbol);
      if (found != sizes.end()) dim = found->second;
    }
  }
  for (const auto& node : graph.nodes()) node->typed = false;
}

}  // namespace requant

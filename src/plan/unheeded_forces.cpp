#include "plan/unheeded_forces.h"

#include "base/str_cat.h"

namespace requant {

std::vector<std::string> UnheededForces(const std::vector<ForcedKernel>& forces,
                                        const KernelChoices& choices) {
  constexpr size_t kNamed = 3;
  std::vector<std::string> out;
  for (const ForcedKernel& forced : forces) {
    const auto found = choices.find(forced.family);
    if (found == choices.end()) {
      out.push_back(StrCat("the forced kernel ", forced.kernel,
                           " has no effect: no step of this plan has a kernel of the family ",
                           forced.family));
      continue;
    }
    size_t others = 0;
    std::string named;
    for (const auto& [node, row] : found->second) {
      if (row == forced.kernel || ++others > kNamed) continue;
      named += StrCat(others > 1 ? ", '" : "'", node, "' by ", row);
    }
    if (others == 0) continue;
    if (others > kNamed) named += StrCat(" and ", others - kNamed, " more");
    out.push_back(StrCat("the forced kernel ", forced.kernel,
                         others == found->second.size() ? " has no effect: " : " runs in part: ",
                         others, " of ", found->second.size(), " steps of the family ",
                         forced.family, " need others (", named, ")"));
  }
  return out;
}

}  // namespace requant

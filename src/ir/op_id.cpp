#include "ir/op_id.h"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace requant {
namespace {

struct Row {
  std::string_view name;
  const char* domain;
};

constexpr Row kRows[] = {
#define REQUANT_OP(name, domain) {#name, domain},
#include "ir/op_ids.inc"
#undef REQUANT_OP
};

constexpr bool ByName(const Row& a, const Row& b) { return a.name < b.name; }
static_assert(std::is_sorted(std::begin(kRows), std::end(kRows), ByName), "sort ir/op_ids.inc");
static_assert(std::size(kRows) + 1 == static_cast<size_t>(Op::kCount));

const Row& RowOf(Op op) { return kRows[static_cast<size_t>(op) - 1]; }

}  // namespace

Op OpId(std::string_view name, std::string_view domain) {
  const Row* row = std::lower_bound(std::begin(kRows), std::end(kRows), Row{name, ""}, ByName);
  if (row == std::end(kRows) || row->name != name || row->domain != domain) return Op::kOther;
  return static_cast<Op>(row - kRows + 1);
}

const char* OpName(Op op) { return RowOf(op).name.data(); }
const char* OpDomain(Op op) { return RowOf(op).domain; }

}  // namespace requant

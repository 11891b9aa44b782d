// The kernels that threads can run: every vector kernel that computes a range, by the name it is
// exported under.
#include "kernels/entry.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "gradient/kernel.h"
#include "kernels/tables.h"

namespace requant {
namespace {

/// Copying and coding rows stays on one thread.
template <typename Rows>
void ExpectEntries(const std::string& family, const Rows& rows) {
  if (family == "copy_rows" || family == "token_codes") return;
  for (const auto& row : rows) {
    const bool scalar = std::string(row.isa) == "scalar";
    EXPECT_EQ(KernelEntryOf(row.run) < 0, scalar) << row.name;
  }
}

TEST(KernelEntries, AreAllVectorKernelsOfTheTables) {
#define FAMILY(name, table) ExpectEntries(#name, table());
#include "kernels/families.inc"
#undef FAMILY
}

TEST(KernelEntries, BeginWithTheKernelsOfGradients) {
  const auto entries = KernelEntries();
#define ROW(number, run, Params) EXPECT_STREQ(entries[gradient::number].name, #run);
#include "gradient/kernels.inc"
#undef ROW
}

TEST(KernelEntries, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (const KernelEntry& entry : KernelEntries()) {
    EXPECT_TRUE(names.insert(entry.name).second) << entry.name;
    EXPECT_EQ(std::string(entry.name).rfind("rq_", 0), 0U) << entry.name;
  }
}

}  // namespace
}  // namespace requant

// Random networks of integers (random_network.h) give the interpreter's bits with any rows of the
// kernel tables, packed or not, fused or not, with one thread or three.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string_view>

#include "api/random_network.h"
#include "base/str_cat.h"
#include "kernels/list.h"
#include "support/random_graphs/dice.h"
#include "support/seeds.h"
#include "support/thread_runner.h"

namespace requant {
namespace {

/// Picks a row of every family, rows for few bits as likely as others; in half of the cases a row
/// that has not run yet, if there is one.
std::vector<ForcedKernel> AnyRows(Dice& dice, const std::set<std::string>& seen) {
  std::map<std::string, std::vector<std::string>> rows, fresh;
  for (const KernelInfo& row : ListKernels()) {
    if (row.missing != nullptr) continue;
    rows[row.family].push_back(row.name);
    if (!seen.contains(row.name)) fresh[row.family].push_back(row.name);
  }
  if (dice.Chance(50)) {
    for (const auto& [family, names] : fresh) rows[family] = names;
  }
  std::vector<ForcedKernel> forced;
  for (const auto& [family, names] : rows) {
    forced.push_back({family, names[static_cast<size_t>(dice.Next() % names.size())]});
  }
  return forced;
}

class RandomNetworks : public ::testing::Test {
 protected:
  void Check(const PreparedModel& integer, const TensorMap& feeds, Dice& dice) {
    SessionOptions options;
    options.plan.requantize = dice.Chance(70) ? RequantizeMode::kUpward : RequantizeMode::kFloat;
    const std::vector<Tensor> expected =
        Interpret(integer.graph(), feeds, {options.plan.requantize, {}});
    for (int round = 0; round < 6; ++round) {
      if (round > 1) options.plan.force_kernels = AnyRows(dice, kernels_);
      options.plan.fuse = round == 0 || dice.Chance(70);
      options.plan.compact = round == 1 || (round > 1 && dice.Chance(30));
      options.runner = round >= 4 ? &runner_ : nullptr;
      Session session(integer.Clone(), options);
      for (int run = 0; run < 2; ++run) {  // what the first run leaves in the arena must not matter
        const std::vector<Tensor> outputs = session.Run(feeds);
        for (size_t i = 0; i < outputs.size(); ++i) {
          if (outputs[i].SameBits(expected[i])) continue;
          ADD_FAILURE() << "output " << integer.graph().outputs()[i]->name << ", round " << round
                        << ", run " << run << ", fuse " << options.plan.fuse << ", compact "
                        << options.plan.compact;
          for (const auto& step : session.plan()->steps) std::cerr << step->kernel << '\n';
          return;
        }
      }
      for (const auto& step : session.plan()->steps) {
        kernels_.insert(step->kernel);
        if (step->parts.count > 1) divided_.insert(step->kernel);
      }
    }
  }

  /// The rows of the convolutions that no case has run.
  std::string Unseen() const {
    std::string names;
    for (const KernelInfo& row : ListKernels()) {
      const bool convolution = std::string_view(row.family).ends_with("conv_q8");
      if (!convolution || row.missing != nullptr || kernels_.contains(row.name)) continue;
      names += names.empty() ? row.name : StrCat(", ", row.name);
    }
    return names;
  }

  testing::ThreadRunner runner_{3};
  std::set<std::string> kernels_, divided_;
};

TEST_F(RandomNetworks, AnyRowsGiveTheSameBits) {
  const testing::Seeds seeds = testing::SeedsOf(150, 600);
  const uint64_t count = seeds.count();
  uint64_t checked = 0;
  // Few networks can use the rarest rows: more are made until every row has run.
  for (uint64_t seed = seeds.first;
       seed < seeds.end || (seed < seeds.end + 5 * count && !Unseen().empty()); ++seed) {
    SCOPED_TRACE(seed);
    Dice dice(seed + 1'000'000);
    const auto [integer, feeds] = RandomIntegers(seed, dice);
    if (!IsAllInteger(integer.graph())) continue;
    ++checked;
    Check(integer, feeds, dice);
    if (HasFailure()) FAIL() << PrintGraph(integer.graph(), {.max_constant_elements = 4});
  }
  EXPECT_GT(checked, count / 2);
  EXPECT_EQ(Unseen(), "");
  EXPECT_GT(divided_.size(), 10u);
}

}  // namespace
}  // namespace requant

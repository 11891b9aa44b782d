// The options of training that have names.
#include "train/options.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace requant {
namespace {

template <typename T>
void CheckNames(const std::vector<std::pair<const char*, T>>& names) {
  for (const auto& [name, value] : names) {
    T parsed = names[value == names[0].second ? 1 : 0].second;
    EXPECT_TRUE(ParseName(name, &parsed)) << name;
    EXPECT_EQ(parsed, value) << name;
    for (const char* other : {"", "Adam", "learned", "score"}) {
      EXPECT_FALSE(ParseName(other, &parsed)) << other;
      EXPECT_EQ(parsed, value) << other;
    }
  }
}

TEST(TrainOptions, Names) {
  CheckNames<TrainOptimizer>({{"adam", TrainOptimizer::kAdam}, {"sgd", TrainOptimizer::kSgd}});
  CheckNames<TrainScales>({{"learn", TrainScales::kLearn},
                           {"observe", TrainScales::kObserve},
                           {"keep", TrainScales::kKeep}});
  CheckNames<TrainLoss>({{"scores", TrainLoss::kScores}, {"values", TrainLoss::kValues}});
}

}  // namespace
}  // namespace requant

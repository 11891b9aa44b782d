// The table of recovery methods and what the options pick out of it.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "base/error.h"
#include "quant/recover/recovery.h"

namespace requant {
namespace {

TEST(RecoveryTable, EveryRowHasTheFunctionOfItsStageAndNoOther) {
  std::set<std::string> names;
  for (const RecoveryRow& row : RecoveryTable()) {
    SCOPED_TRACE(row.name);
    EXPECT_TRUE(names.insert(row.name).second) << "twice";
    const bool layer = row.stage == RecoveryStage::kRound || row.stage == RecoveryStage::kCorrect;
    const bool job = row.stage == RecoveryStage::kChoose || row.stage == RecoveryStage::kLearn;
    EXPECT_EQ(row.rewrite != nullptr, row.stage == RecoveryStage::kGraph);
    EXPECT_EQ(row.measure != nullptr, row.stage == RecoveryStage::kMeasure);
    EXPECT_EQ(row.layer != nullptr, layer);
    EXPECT_EQ(row.job != nullptr, job);
    EXPECT_EQ(FindRecovery(row.name), &row);
  }
  EXPECT_EQ(FindRecovery("none"), nullptr);
}

TEST(RecoveryTable, StagesComeInTheOrderInWhichTheyRun) {
  RecoveryStage stage = RecoveryStage::kGraph;
  for (const RecoveryRow& row : RecoveryTable()) {
    EXPECT_LE(stage, row.stage) << row.name;
    stage = row.stage;
  }
}

TEST(RecoveryMethods, AreInTheOrderOfTheTableWhateverTheOrderOfTheOptions) {
  QuantizeOptions options;
  options.recover = {"empirical_bias", "adaround", "round_weights", "channel_split", "equalize"};
  const RecoveryMethods methods(options);
  std::vector<std::string> graphwise;
  for (const RecoveryRow* row : methods.At(RecoveryStage::kGraph)) graphwise.push_back(row->name);
  EXPECT_EQ(graphwise, (std::vector<std::string>{"equalize", "channel_split"}));
  std::vector<std::string> learning;
  for (const RecoveryRow* row : methods.At(RecoveryStage::kLearn)) learning.push_back(row->name);
  EXPECT_EQ(learning, (std::vector<std::string>{"adaround", "empirical_bias"}));
  EXPECT_TRUE(methods.Any(RecoveryStage::kRound));
  EXPECT_FALSE(methods.Any(RecoveryStage::kCorrect));
}

TEST(RecoveryMethods, SayHowManySamplesTheyKeep) {
  const auto samples = [](std::vector<std::string> recover, int64_t asked, bool quick) {
    QuantizeOptions options;
    options.recover = std::move(recover);
    options.recover_samples = asked;
    options.quick_choices = quick;
    return RecoveryMethods(options).samples();
  };
  EXPECT_EQ(samples({"round_weights", "equalize"}, 40, false), 0);
  EXPECT_EQ(samples({"equalize_activations"}, 40, false), 1);
  EXPECT_EQ(samples({"float_sums"}, 40, false), 40);
  EXPECT_EQ(samples({"float_sums"}, 40, true), 8);
  EXPECT_EQ(samples({"float_sums", "adaround"}, 40, true), 40);
  EXPECT_EQ(samples({"adaround"}, 0, false), 256);
}

TEST(RecoveryMethods, RefuseWhatTheTableDoesNotHave) {
  QuantizeOptions options;
  options.recover = {"equalize", "magic"};
  try {
    RecoveryMethods methods(options);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("'magic'"), std::string::npos) << error.what();
    for (const RecoveryRow& row : RecoveryTable()) {
      EXPECT_NE(error.context().hint.find(row.name), std::string::npos) << row.name;
    }
  }
}

}  // namespace
}  // namespace requant

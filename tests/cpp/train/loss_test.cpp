#include "train/loss.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "quant/model.h"

namespace requant {
namespace {

TEST(Loss, CrossEntropyByHand) {
  TrainOptions options;
  options.label_share = 1;
  const Tensor got = Tensor::FromVector<float>({0, 0}, {1, 2});
  Tensor gradient;
  const LossParts parts = LossOf(options, got, got, 1, 1, gradient);
  EXPECT_NEAR(parts.loss, std::log(2.0), 1e-6);
  EXPECT_NEAR(gradient.AsDouble(0), 0.5, 1e-6);
  EXPECT_NEAR(gradient.AsDouble(1), -0.5, 1e-6);
  EXPECT_EQ(parts.labelled, 1);
  EXPECT_EQ(parts.correct, 0);  // the first of equal scores
}

/// Without labels, the float network's own scores have no loss.
TEST(Loss, NothingToLearnFromTheSame) {
  Noise noise(1);
  const Tensor scores = noise.Make({3, 7});
  for (const TrainLoss loss : {TrainLoss::kScores, TrainLoss::kValues}) {
    TrainOptions options;
    options.loss = loss;
    Tensor gradient;
    const LossParts parts = LossOf(options, scores, scores, -1, 1, gradient);
    EXPECT_NEAR(parts.loss, 0, 1e-9);
    EXPECT_EQ(parts.labelled, 0);
    for (int64_t i = 0; i < gradient.count(); ++i) EXPECT_NEAR(gradient.AsDouble(i), 0, 1e-7);
  }
}

TEST(Loss, RefusesLabelsThatAreNone) {
  Noise noise(3);
  Tensor gradient;
  const Tensor one = noise.Make({1, 7});
  EXPECT_THROW(LossOf({}, one, one, 7, 1, gradient), Error);
  const Tensor rows = noise.Make({2, 7});
  EXPECT_THROW(LossOf({}, rows, rows, 3, 1, gradient), Error);
}

TEST(Loss, GradientsAgainstDifferences) {
  struct Case {
    TrainLoss loss;
    Shape shape;
    int64_t label;
    double share;
  };
  for (const Case& c :
       {Case{TrainLoss::kScores, {1, 7}, 3, 0.3}, Case{TrainLoss::kScores, {1, 7}, -1, 0.3},
        Case{TrainLoss::kScores, {1, 7}, 6, 1.0}, Case{TrainLoss::kScores, {4, 7}, -1, 0.3},
        Case{TrainLoss::kScores, {7}, -1, 0.3},  // no scores
        Case{TrainLoss::kValues, {1, 2, 3, 4}, -1, 0.3},
        Case{TrainLoss::kValues, {1, 7}, 2, 0.3}}) {
    TrainOptions options;
    options.loss = c.loss;
    options.label_share = c.share;
    Noise noise(2);
    Tensor got = noise.Make(c.shape);
    const Tensor wanted = noise.Make(c.shape);
    Tensor gradient, ignored;
    constexpr float kWeight = 0.25f;
    LossOf(options, got, wanted, c.label, kWeight, gradient);
    for (int64_t i = 0; i < got.count(); ++i) {
      constexpr float kStep = 1e-2f;
      auto& element = got.data<float>()[i];
      const float kept = element;
      element = kept + kStep;
      const double up = LossOf(options, got, wanted, c.label, 1, ignored).loss;
      element = kept - kStep;
      const double down = LossOf(options, got, wanted, c.label, 1, ignored).loss;
      element = kept;
      const double slope = (up - down) / (2 * static_cast<double>(kStep));
      EXPECT_NEAR(gradient.AsDouble(i), static_cast<double>(kWeight) * slope, 1e-4);
    }
  }
}

}  // namespace
}  // namespace requant

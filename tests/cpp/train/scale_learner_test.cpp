#include "train/scale_learner.h"

#include <gtest/gtest.h>

#include <cmath>

namespace requant {
namespace {

/// The scale, from 1, after some updates with equal gradients.
float ScaleAfter(int updates, int bits, double rate) {
  TensorQuantizationConfig config;
  config.bits = bits;
  config.scale = {1};
  ScaleLearner learner(config);
  for (int i = 0; i < updates; ++i) {
    learner.gradient[0] = -1;
    learner.Update(rate);
  }
  return learner.scale[0];
}

TEST(ScaleLearner, FinerGridsLearnAtALowerRate) {
  // The first update of Adam changes a parameter by the rate.
  EXPECT_NEAR(std::log(ScaleAfter(1, 2, 0.02)), 0.02, 1e-5);
  EXPECT_NEAR(std::log(ScaleAfter(1, 4, 0.02)), 0.02 / 4, 1e-5);
  EXPECT_NEAR(std::log(ScaleAfter(1, 8, 0.02)), 0.02 / 64, 1e-5);
  EXPECT_NEAR(std::log(ScaleAfter(1, 1, 0.02)), 0.02 / 32, 1e-5);
}

TEST(ScaleLearner, ScalesStayNearTheirStart) {
  EXPECT_NEAR(ScaleAfter(2000, 1, 1), 4, 1e-3);
  EXPECT_NEAR(ScaleAfter(2000, 2, 1), std::exp(3.0), 1e-2);
}

}  // namespace
}  // namespace requant

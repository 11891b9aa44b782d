#include "train/batch_norm.h"

#include <gtest/gtest.h>

#include "quant/model.h"
#include "support/part_runner.h"

namespace requant {
namespace {

constexpr size_t kChannels = 3;

std::vector<Tensor> Batch(uint32_t seed, int samples = 4) {
  Noise noise(seed);
  std::vector<Tensor> out;
  for (int i = 0; i < samples; ++i) {
    out.push_back(noise.Make({1, kChannels, 5, 7}, 1.5f, 0.3f * static_cast<float>(i)));
  }
  return out;
}

ChannelMoments Measured(std::span<const Tensor> batch) {
  BatchRunner runner;
  return MeasureChannels(runner, batch);
}

TEST(BatchNorm, Moments) {
  const std::vector<Tensor> batch = Batch(1);
  const ChannelMoments moments = Measured(batch);
  EXPECT_EQ(ElementsOfChannel(batch), 4 * 35);
  for (size_t channel = 0; channel < kChannels; ++channel) {
    double sum = 0, squares = 0;
    for (const Tensor& x : batch) {
      for (int64_t i = 0; i < 35; ++i) {
        const double v = x.AsDouble(static_cast<int64_t>(channel) * 35 + i);
        sum += v / 140;
        squares += v * v / 140;
      }
    }
    EXPECT_NEAR(moments.mean[channel], sum, 1e-5);
    EXPECT_NEAR(moments.variance[channel], squares - sum * sum, 1e-4);
  }
}

/// A layer that computes what the float layer does is not changed, and neither is its bias.
TEST(BatchNorm, StartsAsTheFloatLayer) {
  const std::vector<Tensor> batch = Batch(2);
  BatchNorm norm(Measured(batch), std::make_shared<BatchRunner>());
  const std::vector<Tensor> y = norm.Forward(batch);
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    for (int64_t i = 0; i < y[sample].count(); ++i) {
      const auto channel = static_cast<size_t>(i / 35);
      EXPECT_NEAR(y[sample].AsDouble(i), batch[sample].AsDouble(i), 1e-4);
      // The running variances are unbiased: times n / (n - 1).
      EXPECT_NEAR(static_cast<double>(norm.Factor(channel)), 1, 0.005);
      EXPECT_NEAR(static_cast<double>(norm.Bias(channel)), 0, 0.005);
    }
  }
}

/// W' and b' of the running statistics give gamma * (u - mu) / sigma + beta.
TEST(BatchNorm, FoldsAsItNormalizes) {
  BatchNorm norm(Measured(Batch(3)), std::make_shared<BatchRunner>());
  // The effect of quantization on the outputs is the same in every batch, so that the running
  // statistics become those of the batch. The batch comes from the folded layer, which follows
  // them.
  const std::vector<Tensor> plain = Batch(4);
  norm.SetMeasuring(false);
  std::vector<Tensor> y;
  std::vector<Tensor> folded;
  for (int step = 0; step < 200; ++step) {
    folded.clear();
    for (const Tensor& u : plain) {
      Tensor& x = folded.emplace_back(u.Clone());
      for (int64_t i = 0; i < x.count(); ++i) {
        x.data<float>()[i] *= norm.Factor(static_cast<size_t>(i / 35));
      }
    }
    y = norm.Forward(folded);
  }
  for (size_t sample = 0; sample < y.size(); ++sample) {
    for (int64_t i = 0; i < y[sample].count(); ++i) {
      const auto channel = static_cast<size_t>(i / 35);
      const double deployed =
          plain[sample].AsDouble(i) * static_cast<double>(norm.Factor(channel)) +
          static_cast<double>(norm.Bias(channel));
      EXPECT_NEAR(deployed, y[sample].AsDouble(i), 0.03);
    }
  }
}

TEST(BatchNorm, GradientsAgainstDifferences) {
  std::vector<Tensor> batch = Batch(5);
  const std::vector<Tensor> dy = Batch(6);
  const ChannelMoments start = Measured(Batch(7));
  const auto loss = [&](const BatchNorm& from) {
    BatchNorm norm = from;
    const std::vector<Tensor> y = norm.Forward(batch);
    double sum = 0;
    for (size_t sample = 0; sample < y.size(); ++sample) {
      for (int64_t i = 0; i < y[sample].count(); ++i) {
        sum += y[sample].AsDouble(i) * dy[sample].AsDouble(i);
      }
    }
    return sum;
  };
  const BatchNorm fresh(start, std::make_shared<BatchRunner>());
  BatchNorm norm = fresh;
  norm.Forward(batch);
  const std::vector<Tensor> dx = norm.Backward(batch, dy);
  constexpr float kStep = 1e-2f;
  const auto slope = [&](float& parameter, const BatchNorm& from) {
    const float kept = parameter;
    parameter = kept + kStep;
    const double up = loss(from);
    parameter = kept - kStep;
    const double down = loss(from);
    parameter = kept;
    return (up - down) / (2 * static_cast<double>(kStep));
  };
  for (size_t sample = 0; sample < batch.size(); ++sample) {
    for (int64_t i = 0; i < 105; i += 11) {
      EXPECT_NEAR(dx[sample].AsDouble(i), slope(batch[sample].data<float>()[i], fresh), 5e-3);
    }
  }
  for (size_t channel = 0; channel < kChannels; ++channel) {
    BatchNorm moved = fresh;
    EXPECT_NEAR(static_cast<double>(norm.gamma_gradient[channel]),
                slope(moved.gamma[channel], moved), 0.05);
    EXPECT_NEAR(static_cast<double>(norm.beta_gradient[channel]), slope(moved.beta[channel], moved),
                0.05);
  }
}

/// Samples of several sizes, some of them empty, and enough for three threads.
TEST(BatchNorm, SameOnThreeThreads) {
  Noise noise(8);
  std::vector<Tensor> x, dy;
  for (const int64_t side : {150, 0, 149, 1, 151, 7}) {
    x.push_back(noise.Make({2, 3, side, side}));
    dy.push_back(noise.Make({2, 3, side, side}));
  }
  testing::PartRunner threads(3);
  std::vector<Tensor> outputs[2], gradients[2];
  ChannelMoments moments[2];
  for (const size_t at : {0, 1}) {
    const auto runner = std::make_shared<BatchRunner>(at == 0 ? nullptr : &threads);
    moments[at] = MeasureChannels(*runner, x);
    BatchNorm norm(moments[at], runner);
    outputs[at] = norm.Forward(x);
    gradients[at] = norm.Backward(x, dy);
  }
  EXPECT_EQ(moments[0].mean, moments[1].mean);
  EXPECT_EQ(moments[0].variance, moments[1].variance);
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_TRUE(outputs[0][i].SameBits(outputs[1][i])) << i;
    EXPECT_TRUE(gradients[0][i].SameBits(gradients[1][i])) << i;
  }
}

}  // namespace
}  // namespace requant

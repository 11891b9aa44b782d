#include "quant/observers/tensor_observer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "quant/model.h"
#include "quant/sim/fake_quantizer.h"

namespace requant {
namespace {

TEST(TensorObserver, EveryKindClonesAndMergesToTheSameBits) {
  for (const ObserverRow& row : ObserverTable()) {
    Noise noise(7);
    const Tensor tensors[] = {noise.Make({3, 17}), noise.Make({2, 17}, 3), noise.Make({5, 17})};
    TensorObserver whole({.observer = row.name});
    TensorObserver first({.observer = row.name});
    TensorObserver second({.observer = row.name});
    for (int pass = 0; pass < whole.passes(); ++pass) {
      for (const Tensor& tensor : tensors) whole.Observe(pass, tensor);
      if (pass > 0) second = first.Clone();
      first.Observe(pass, tensors[0]);
      second.Observe(pass, tensors[1]);
      second.Observe(pass, tensors[2]);
      first.Merge(second);
    }
    EXPECT_EQ(first.Ranges()[0].min, whole.Ranges()[0].min) << row.name;
    EXPECT_EQ(first.Ranges()[0].max, whole.Ranges()[0].max) << row.name;
    EXPECT_EQ(first.Grid().scale, whole.Grid().scale) << row.name;
  }
}

TEST(TensorObserver, ChannelsHaveTheirOwnRanges) {
  TensorObserver observer({.symmetric = true, .per_channel = true, .axis = 1});
  Noise noise(9);
  const Tensor x = noise.Make({2, 3, 5});
  observer.Observe(0, x);
  const TensorQuantizationConfig grid = observer.Grid();
  ASSERT_EQ(grid.scale.size(), 3U);
  for (int64_t channel = 0; channel < 3; ++channel) {
    float most = 0;
    for (int64_t i = 0; i < x.count(); ++i) {
      if (i / 5 % 3 == channel) most = std::fmax(most, std::fabs(x.data<float>()[i]));
    }
    EXPECT_FLOAT_EQ(grid.scale[static_cast<size_t>(channel)], most / 127);
  }
  EXPECT_THROW(observer.Observe(0, noise.Make({1, 4, 2})), Error);
  EXPECT_THROW(observer.Observe(1, x), Error);
  EXPECT_THROW(observer.Observe(0, Tensor(DType::kInt32, {1, 3, 1})), Error);
}

TEST(FakeQuantizer, GradientsAreThoseOfTheDefinition) {
  FakeQuantizer grid({.bits = 4, .per_channel = true, .axis = 0, .quant_min = 1, .quant_max = 12},
                     {{0.2f, 0.3f}, {5, 7}});
  Noise noise(11);
  for (const int64_t size : {1, 7, 255, 256, 257, 600}) {
    const Tensor x = noise.Make({2, size});
    const Tensor dy = noise.Make({2, size});
    const Tensor y = grid.Forward(x);
    const FakeQuantizer::Gradients made = grid.Backward(dy);
    for (int64_t channel = 0; channel < 2; ++channel) {
      const auto at = static_cast<size_t>(channel);
      const float scale = grid.grid().scale[at];
      const auto zero = static_cast<float>(grid.grid().offset[at]);
      double slope = 0;
      for (int64_t i = channel * size; i < (channel + 1) * size; ++i) {
        const float v = x.data<float>()[i] / scale;
        const float q = std::fmin(std::fmax(std::nearbyint(v), 1 - zero), 12 - zero);
        EXPECT_FLOAT_EQ(y.data<float>()[i], q * scale);
        const bool inside = v >= 0.5F - zero && v <= 12.5F - zero;
        const float gradient = dy.data<float>()[i];
        EXPECT_EQ(made.input.data<float>()[i], inside ? gradient : 0.0F);
        slope += static_cast<double>((inside ? q - v : q) * gradient);
      }
      EXPECT_NEAR(made.scale[at], slope, 1e-4 * (1 + std::fabs(slope)));
    }
  }
  EXPECT_THROW(grid.Forward(noise.Make({3, 4})), Error);
  EXPECT_THROW(grid.Backward(noise.Make({2, 4})), Error);
}

}  // namespace
}  // namespace requant

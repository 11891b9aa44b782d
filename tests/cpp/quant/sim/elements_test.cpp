// The kernels of single elements against their formulas, one element at a time, on
// odd sizes and extreme values, and on one thread against three.
#include "quant/sim/elements.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "quant/grid/affine.h"
#include "quant/model.h"
#include "support/part_runner.h"

namespace requant {
namespace {

using gradient::ElementFunction;
using gradient::ElementParams;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kExtremes[] = {0.0F,      -0.0F,      1e-45F, -1e-38F, 3.4e38F, -3.4e38F,
                               kInfinity, -kInfinity, NAN,    0.5F,    -1.5F,   2.5F};

/// Noise with an extreme value at every third place.
Tensor Operand(Noise& noise, int64_t count) {
  Tensor out = noise.Make({count}, 3);
  for (int64_t i = 0; i < count; i += 3) {
    out.data<float>()[i] = kExtremes[static_cast<size_t>(i / 3 + count) % std::size(kExtremes)];
  }
  return out;
}

bool Same(float a, float b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

struct Function {
  const char* name;
  ElementFunction which;
  std::function<float(float a, float b, float c)> formula;
};

TEST(Elements, AgainstTheirFormulas) {
  const auto finite = [](float x) { return std::isfinite(x) ? x : 0.0F; };
  const Function functions[] = {
      {"clip", ElementFunction::kClip,
       [](float a, float, float) { return std::min(std::max(a, -1.25F), 2.0F); }},
      {"add", ElementFunction::kAdd, [](float a, float b, float) { return a + b; }},
      {"finite", ElementFunction::kFinite, [&](float a, float, float) { return finite(a); }},
      {"clip gradient", ElementFunction::kClipGradient,
       [&](float a, float b, float c) { return a == b ? finite(c) : 0.0F; }},
      {"relu gradient", ElementFunction::kReluGradient,
       [&](float a, float b, float) { return a > 0 ? finite(b) : 0.0F; }},
      {"round to grid", ElementFunction::kRoundToGrid,
       [](float a, float, float) {
         // Adding 0 makes zeros positive, as the kernel does.
         return (std::nearbyint(std::min(std::max(a / 0.3F, -1.25F), 2.0F)) + 0.0F) * 0.3F;
       }},
  };
  Noise noise(3);
  for (const Function& function : functions) {
    ElementParams params{function.which};
    params.low = -1.25F;
    params.high = 2;
    params.scale = 0.3F;
    for (int64_t count = 0; count < 40; ++count) {
      const Tensor a = Operand(noise, count), c = Operand(noise, count);
      Tensor b = Operand(noise, count);
      for (int64_t i = 0; i < count; i += 2) b.data<float>()[i] = a.data<float>()[i];
      const Tensor y = std::move(MapElements(nullptr, params, {{&a}, {&b}, {&c}})[0]);
      for (int64_t i = 0; i < count; ++i) {
        const float x = a.data<float>()[i], other = b.data<float>()[i], third = c.data<float>()[i];
        EXPECT_TRUE(Same(y.data<float>()[i], function.formula(x, other, third)))
            << function.name << " of " << x << ", " << other << ", " << third << " gives "
            << y.data<float>()[i];
      }
    }
  }
}

/// LSQ's gradient of y = s * round(clamp(x / s)), by the logarithm of s.
TEST(Elements, GradientOfTheGrid) {
  const GridRange grid{0.25F, -7, 8};
  Noise noise(4);
  for (const bool drops : {false, true}) {
    for (int64_t count = 0; count < 60; ++count) {
      const Tensor x = noise.Make({count}, 2), dy = noise.Make({count}, 1);
      Tensor dx(DType::kFloat32, {count}), y = x.Clone();
      const uint32_t mix = 77 + static_cast<uint32_t>(count);
      const auto chosen = drops ? std::optional<uint32_t>(mix) : std::nullopt;
      const double step = GridGradient(x.data<float>(), dy.data<float>(), count, grid, chosen, true,
                                       dx.data<float>());
      EXPECT_EQ(0, GridGradient(x.data<float>(), dy.data<float>(), count, grid, chosen, false,
                                dx.data<float>()));
      // KeepDropped() restores those that stay off the grid.
      for (int64_t i = 0; i < count; ++i) y.data<float>()[i] = 1e9F;
      if (drops) KeepDropped(mix, x.data<float>(), count, y.data<float>());
      double wanted = 0;
      for (int64_t i = 0; i < count; ++i) {
        const float v = x.data<float>()[i] / grid.scale, gradient = dy.data<float>()[i];
        const bool dropped = y.data<float>()[i] != 1e9F;
        const bool inside = v >= grid.low - 0.5F && v <= grid.high + 0.5F;
        EXPECT_EQ(dx.data<float>()[i], dropped || inside ? gradient : 0);
        if (dropped) continue;
        const float code = std::nearbyint(std::min(std::max(v, grid.low), grid.high));
        wanted += static_cast<double>((inside ? code - v : code) * gradient);
      }
      EXPECT_NEAR(step, wanted * 0.25, 1e-12 * static_cast<double>(count));
    }
  }
}

/// Grids that the kernel does not round to take FakeQuantize(), like those that it does.
TEST(Elements, GridsOfEveryKind) {
  Noise noise(5);
  const Tensor x = noise.Make({2, 3, 5}, 2);
  for (const int bits : {2, 4, 8, 16}) {
    for (const RoundingPolicy rounding : {RoundingPolicy::kHalfEven, RoundingPolicy::kHalfUp}) {
      for (const size_t channels : {1, 3}) {
        TensorQuantizationConfig config;
        config.bits = bits;
        config.quant_min = -(1 << (bits - 1));
        config.quant_max = (1 << (bits - 1)) - 1;
        config.rounding = rounding;
        config.axis = 1;
        config.scale.assign(channels, 0.3F);
        config.offset.assign(channels, 1);
        config.scale.back() = 0.2F;
        const Tensor y = FakeQuantizeTensor(x, config);
        for (int64_t i = 0; i < x.count(); ++i) {
          const auto channel = channels == 1 ? size_t{0} : static_cast<size_t>(i / 5 % 3);
          EXPECT_EQ(y.data<float>()[i], FakeQuantize(x.data<float>()[i], config, channel));
        }
      }
    }
  }
}

/// Samples of several sizes, some of them empty, and enough for three threads.
std::vector<Tensor> Batch(uint32_t seed) {
  Noise noise(seed);
  std::vector<Tensor> out;
  for (const int64_t side : {150, 0, 149, 1, 151, 7}) out.push_back(noise.Make({2, 3, side, side}));
  return out;
}

void ExpectSame(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_TRUE(a[i].SameBits(b[i])) << i;
}

TEST(Elements, SameOnThreeThreads) {
  const std::vector<Tensor> x = Batch(6), dy = Batch(7);
  testing::PartRunner threads(3);
  BatchRunner one, three(&threads);
  const GridRange grid{0.05F, -7, 8};
  double steps[2] = {0, 0};
  ExpectSame(GridGradients(&one, grid, PointersTo(x), dy, steps),
             GridGradients(&three, grid, PointersTo(x), dy, steps + 1));
  EXPECT_EQ(steps[0], steps[1]);
  EXPECT_NE(steps[0], 0);
  ExpectSame(MapElements(&one, {ElementFunction::kAdd}, {PointersTo(x), PointersTo(dy), {}}),
             MapElements(&three, {ElementFunction::kAdd}, {PointersTo(x), PointersTo(dy), {}}));
}

}  // namespace
}  // namespace requant

#include <gtest/gtest.h>

#include <cmath>
#include <string_view>

#include "quant/grid/affine.h"
#include "quant/model.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

TEST(Weights, AffineGridsHoldTheirRangeAndZero) {
  Builder builder;
  Noise noise(4);
  Value* x = builder.Input("x", {1, 40, 4, 4});
  Value* y = builder.Conv(x, "conv", {5, 40, 1, 1}, 0, noise);
  Tensor weights = y->producer->inputs[1]->constant.Clone();
  auto* data = weights.data<float>();
  for (int64_t i = 0; i < 40; ++i) {
    data[i] = std::fabs(data[i]) + 0.01f;      // one side of 0
    data[40 + i] = -std::fabs(data[40 + i]);   // the other one
    data[80 + i] = 0;                          // dead
    data[120 + i] = data[120 + i] * 0.1f + 1;  // far from 0
  }
  const WeightMatrix view = ViewWeights(*y->producer, QuantRule::kConv);
  for (const bool is_signed : {false, true}) {
    for (const bool per_channel : {false, true}) {
      for (const int bits : {2, 4, 8}) {
        double least_squares = 0, of_range = 0;
        for (const char* observer : {"minmax", "mse", "percentile", "kl", "auto"}) {
          TensorQuantizationConfig config;
          ApplySettings({.bits = bits,
                         .symmetric = false,
                         .per_channel = per_channel,
                         .observer = observer,
                         .is_signed = is_signed},
                        true, config);
          config.axis = 0;
          EXPECT_EQ(config.dtype, is_signed ? DType::kInt8 : DType::kUint8);
          ScaleWeights(weights, view, 0.01, 0.02, {}, config);
          ASSERT_EQ(config.scale.size(), per_channel ? 5U : 1U);
          ASSERT_EQ(config.offset.size(), config.scale.size());
          for (const int32_t offset : config.offset) {
            EXPECT_GE(offset, config.quant_min);
            EXPECT_LE(offset, config.quant_max);
          }
          const Tensor got = DequantizeParameter(QuantizeParameter(weights, config), config);
          double squares = 0;
          for (int64_t i = 0; i < got.count(); ++i) {
            const double error = got.AsDouble(i) - weights.AsDouble(i);
            squares += error * error;
            if (std::string_view(observer) != "minmax") continue;
            EXPECT_LE(std::fabs(error), 1.0001 * config.ScaleOfRow(i / 40)) << bits << " " << i;
          }
          for (int64_t i = 80; i < 120; ++i) EXPECT_EQ(got.AsDouble(i), 0);
          if (std::string_view(observer) == "minmax") of_range = squares;
          if (std::string_view(observer) == "mse") least_squares = squares;
        }
        EXPECT_LE(least_squares, of_range * 1.0001);
      }
    }
  }
}

}  // namespace
}  // namespace requant

// Multipliers that are multiples of 2^-16.
#include "quant/grid/simple_multipliers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "numeric/requantize_prepare.h"
#include "quant/grid/affine.h"
#include "quant/model.h"

namespace requant {
namespace {

/// A chain of layers with few and with many products.
Graph Chain(uint32_t seed) {
  Builder b;
  Noise noise(seed);
  Value* x =
      b.Op("Relu", {b.Conv(b.Input("x", {1, 3, 6, 6}), "stem", {20, 3, 3, 3}, 1, noise)}, "r0");
  x = b.Op("Relu", {b.Conv(x, "pointwise", {16, 20, 1, 1}, 0, noise)}, "r1");
  x = b.Op("Relu", {b.Conv(x, "deep", {40, 16, 3, 3}, 1, noise)}, "r2");
  b.graph.AddOutput(b.Conv(x, "y", {3, 40, 1, 1}, 0, noise));
  return std::move(b.graph);
}

QuantizedModel Quantized(const Graph& graph, QuantizeOptions options = {}) {
  options.recover = {};
  return QuantizeGraph(graph, std::move(options), 4);
}

struct Layer {
  const TensorQuantizationConfig &input, &weights, &output;
  double multiplier(size_t channel) const {
    return static_cast<double>(input.scale[0]) * static_cast<double>(weights.scale[channel]) /
           static_cast<double>(output.scale[0]);
  }
  int simple() const {
    int found = 0;
    for (size_t c = 0; c < weights.scale.size(); ++c) {
      found += SimpleMultiplier(multiplier(c)) > 0 ? 1 : 0;
    }
    return found;
  }
};

Layer LayerOf(const QuantizedModel& model, const std::string& node) {
  const OperatorQuantization& op = model.record.operators.at(node);
  const QuantizationRecord& record = model.record;
  return {record.Root(op.inputs[0]), record.Root(op.inputs[1]), record.Root(op.outputs[0])};
}

/// The ratio of a channel's step to the one that its weights need.
double Widening(const QuantizedModel& model, const std::string& node, const Layer& layer,
                size_t channel) {
  const Tensor& weights = *model.float_graph.FindNode(node)->constant(1);
  const int64_t row = weights.count() / weights.dim(0);
  double largest = 0;
  for (int64_t i = 0; i < row; ++i) {
    const float w = weights.data<float>()[static_cast<int64_t>(channel) * row + i];
    largest = std::max(largest, std::fabs(static_cast<double>(w)));
  }
  return static_cast<double>(layer.weights.scale[channel]) /
         static_cast<double>(static_cast<float>(SymmetricScale(largest, layer.weights)));
}

TEST(SimpleMultipliers, LayersBecomeSimpleByLittle) {
  int simple = 0, all = 0;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    QuantizeOptions options;
    options.global.weights.observer = "minmax";
    const QuantizedModel model = Quantized(Chain(seed), options);
    for (const char* node : {"stem_node", "pointwise_node", "deep_node"}) {
      const Layer layer = LayerOf(model, node);
      simple += layer.simple();
      all += static_cast<int>(layer.weights.scale.size());
      for (size_t c = 0; c < layer.weights.scale.size(); ++c) {
        const double widening = Widening(model, node, layer, c);
        EXPECT_GE(widening, 1 - 2e-6) << node << " " << c;
        EXPECT_LE(widening, 1.02 + 1e-6) << node << " " << c;
      }
    }
  }
  EXPECT_GT(simple, all * 9 / 10);
}

TEST(SimpleMultipliers, EightChannelsOrNone) {
  TensorQuantizationConfig output, weights;
  output.bits = weights.bits = 8;
  output.scale = {1.0f};
  weights.scale.assign(20, 0.00301f);
  weights.scale[9] = 1e-5f;  // less than one unit: 2 % do not suffice
  const std::vector<float> before = weights.scale;
  SimplifyMultipliers(0.5, output, weights);
  for (size_t c = 0; c < 20; ++c) {
    const bool stays = c >= 8 && c < 16;
    EXPECT_EQ(weights.scale[c] == before[c], stays) << c;
    EXPECT_EQ(SimpleMultiplier(0.5 * static_cast<double>(weights.scale[c])) > 0, !stays) << c;
  }
  // Simple multipliers stay as they are.
  const std::vector<float> once = weights.scale;
  SimplifyMultipliers(0.5, output, weights);
  EXPECT_EQ(weights.scale, once);
}

TEST(SimpleMultipliers, GivenScalesAndOtherGridsStay) {
  QuantizeOptions options;
  options.scales["pointwise_w"] = {std::vector<float>(16, 0.0123f), {}};
  const QuantizedModel given = Quantized(Chain(3), options);
  for (const float scale : LayerOf(given, "pointwise_node").weights.scale) {
    EXPECT_EQ(scale, 0.0123f);
  }

  options = {};
  options.global.weights.power_of_2 = true;
  const QuantizedModel power = Quantized(Chain(3), options);
  int exponent = 0;
  for (const float scale : LayerOf(power, "deep_node").weights.scale) {
    EXPECT_EQ(std::frexp(scale, &exponent), 0.5f);
  }

  for (const bool weights : {false, true}) {
    options = {};
    options.global.weights.observer = "minmax";
    (weights ? options.global.weights : options.global.activations).bits = 4;
    const QuantizedModel few = Quantized(Chain(3), options);
    const Layer layer = LayerOf(few, "deep_node");
    for (size_t c = 0; c < layer.weights.scale.size(); ++c) {
      EXPECT_EQ(Widening(few, "deep_node", layer, c), 1) << c;
    }
  }
}

}  // namespace
}  // namespace requant

// Scales of sums that are simple fractions of each other.
#include "quant/grid/simple_sums.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "numeric/qadd.h"
#include "quant/grid/affine.h"
#include "quant/model.h"

namespace requant {
namespace {

/// A trunk to which `blocks` layers add in order; every second addition is a Sub.
Graph Trunk(int blocks, uint32_t seed) {
  Builder b;
  Noise noise(seed);
  Value* x = b.Conv(b.Input("x", {1, 3, 6, 6}), "stem", {4, 3, 3, 3}, 1, noise);
  for (int i = 0; i < blocks; ++i) {
    const std::string name = std::to_string(i);
    Value* added = b.Conv(x, "c" + name, {4, 4, 3, 3}, 1, noise);
    x = b.Op("Relu", {b.Op(i % 2 ? "Sub" : "Add", {x, added}, "sum" + name)}, "relu" + name);
  }
  b.graph.AddOutput(b.Conv(x, "y", {3, 4, 1, 1}, 0, noise));
  return std::move(b.graph);
}

QuantizedModel Quantized(const Graph& graph, QuantizeOptions options = {}) {
  options.recover = {};
  return QuantizeGraph(graph, std::move(options), 4);
}

struct Sum {
  const TensorQuantizationConfig &a, &b, &out;
  bool simple() const {
    const auto ratio = [this](const TensorQuantizationConfig& operand) {
      return static_cast<double>(operand.scale[0]) / static_cast<double>(out.scale[0]);
    };
    return MakeQAddSimple(MakeQAddMultipliers(ratio(a), ratio(b)), 0).shift != 0;
  }
};

Sum SumOf(const QuantizedModel& model, const std::string& node) {
  const OperatorQuantization& op = model.record.operators.at(node);
  return {model.record.Root(op.inputs[0]), model.record.Root(op.inputs[1]),
          model.record.Root(op.outputs[0])};
}

/// The ratio of the step to the one that the range needs.
double Widening(const TensorQuantizationConfig& config) {
  const Affine plain = AffineFromRange(config.range_min, config.range_max, config);
  EXPECT_EQ(config.offset[0], plain.offset);
  return static_cast<double>(config.scale[0]) / static_cast<double>(plain.scale);
}

TEST(SimpleSums, ChainsBecomeSimpleByLittle) {
  int simple = 0;
  for (uint32_t seed = 1; seed <= 10; ++seed) {
    const QuantizedModel model = Quantized(Trunk(4, seed));
    for (int i = 0; i < 4; ++i) {
      const Sum sum = SumOf(model, "sum" + std::to_string(i) + "_node");
      simple += sum.simple() ? 1 : 0;
      for (const TensorQuantizationConfig* config : {&sum.a, &sum.b, &sum.out}) {
        const double widening = Widening(*config);
        EXPECT_GE(widening, 1 - 1e-6) << config->value;
        EXPECT_LE(widening, 1.02 + 1e-6) << config->value;
      }
    }
  }
  EXPECT_GE(simple, 36);  // of 40: an operand may be too small compared with the sum
}

TEST(SimpleSums, GivenScalesAndOtherGridsStay) {
  const Graph graph = Trunk(1, 3);
  QuantizeOptions options;
  options.scales["relu0"] = {{0.0123f}, {0}};
  options.scales["stem"] = {{0.0371f}, {99}};
  const QuantizedModel given = Quantized(graph, options);
  const Sum sum = SumOf(given, "sum0_node");
  EXPECT_EQ(sum.out.scale[0], 0.0123f);
  EXPECT_EQ(sum.a.scale[0], 0.0371f);
  EXPECT_EQ(Widening(sum.b), 1);

  options = {};
  options.global.activations.power_of_2 = true;
  const QuantizedModel power = Quantized(graph, options);
  int exponent = 0;
  const Sum of_power = SumOf(power, "sum0_node");
  for (const TensorQuantizationConfig* config : {&of_power.a, &of_power.b, &of_power.out}) {
    EXPECT_EQ(std::frexp(config->scale[0], &exponent), 0.5f);
  }

  options = {};
  options.global.activations.bits = 4;
  const QuantizedModel few = Quantized(graph, options);
  const Sum of_few = SumOf(few, "sum0_node");
  for (const TensorQuantizationConfig* config : {&of_few.a, &of_few.b, &of_few.out}) {
    EXPECT_EQ(Widening(*config), 1);
  }
}

TEST(SimpleSums, OneGivenScaleIsKeptAndTheOthersFollow) {
  QuantizeOptions options;
  const QuantizedModel plain = Quantized(Trunk(1, 5));
  const float given = SumOf(plain, "sum0_node").out.scale[0] * 1.003f;
  options.scales["relu0"] = {{given}, {0}};
  const QuantizedModel model = Quantized(Trunk(1, 5), options);
  EXPECT_EQ(SumOf(model, "sum0_node").out.scale[0], given);
  EXPECT_TRUE(SumOf(model, "sum0_node").simple());
}

}  // namespace
}  // namespace requant

// Sums of residual chains that stay in float, and layers that write floats for them.
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "ir/verify.h"
#include "quant/grid/affine.h"
#include "quant/model.h"
#include "quant/recover/choose_float/switch_off.h"
#include "quant/sim/simulator.h"

namespace requant {
namespace {

/// Blocks that are wide inside add to a narrow trunk of 4 channels, and after a stride of 6. Every
/// block adds a fraction of the trunk, so that rounding the trunk costs all of them.
Graph TwoChains() {
  Builder b;
  Noise noise(5);
  const auto block = [&](Value* x, const std::string& name, int64_t channels) {
    Value* wide = b.Op("Relu", {b.Conv(x, name + "a", {32, channels, 3, 3}, 1, noise)}, name + "r");
    return b.Op("Add", {x, b.Conv(wide, name + "b", {channels, 32, 3, 3}, 1, noise)}, name);
  };
  Value* x = b.Conv(b.Input("x", {1, 3, 8, 8}), "stem", {4, 3, 3, 3}, 1, noise);
  for (const char* name : {"p", "q", "s"}) x = block(x, name, 4);
  x = b.Conv(x, "down", {6, 4, 3, 3}, 1, noise, 1, 2);
  for (const char* name : {"t", "u"}) x = block(x, name, 6);
  b.graph.AddOutput(b.Conv(b.Op("Relu", {b.Conv(x, "v", {24, 6, 1, 1}, 0, noise)}, "w"), "y",
                           {5, 24, 1, 1}, 0, noise));
  return std::move(b.graph);
}

QuantizedModel Quantized(const Graph& graph, std::vector<std::string> recover, int samples = 6) {
  QuantizeOptions options;
  options.recover = std::move(recover);
  Quantizer quantizer(FloatModel(graph), options);
  for (int i = 0; i < samples; ++i) {
    quantizer.Keep(RandomFeeds(graph, 100 + static_cast<uint32_t>(i)));
  }
  Calibrate(quantizer, quantizer.graph(), 8);
  return quantizer.Finish();
}

const OperatorQuantization& Op(const QuantizedModel& model, const std::string& name) {
  return model.record.operators.at(name + "_node");
}

QuantizationState ResultState(const QuantizedModel& model, const std::string& name) {
  return model.record.configs[static_cast<size_t>(Op(model, name).outputs[0])].state;
}

TEST(FloatSums, WhatIsAddedUpIsFloat) {
  const Graph graph = TwoChains();
  const QuantizedModel plain = Quantized(graph, {});
  const QuantizedModel model = Quantized(graph, {"float_sums"});
  ASSERT_EQ(model.record.recovery.size(), 1u);
  const RecoveryStep& step = model.record.recovery[0];
  EXPECT_EQ(step.detail,
            "5 sums, from 'p_node' on, and what 7 layers add to them stay in float: 2272 values");
  EXPECT_GT(step.after_db, step.before_db + 0.5);  // on six samples; others are checked below
  for (const char* name : {"p", "q", "s", "t", "u"}) {
    EXPECT_FALSE(Op(model, name).quantized) << name;
    EXPECT_EQ(Op(model, name).reason, "float_sums keeps it in float");
    EXPECT_EQ(ResultState(model, name), QuantizationState::kDequantized);
  }
  for (const char* name : {"stem", "pb", "qb", "sb", "down", "tb", "ub"}) {
    EXPECT_TRUE(Op(model, name).quantized && Op(model, name).float_output) << name;
    EXPECT_EQ(ResultState(model, name), QuantizationState::kDequantized);
  }
  // The readers of a sum round it to the grid that the sum had.
  for (const char* name : {"pa", "qa", "sa", "ta", "ua", "v", "y"}) {
    EXPECT_TRUE(Op(model, name).quantized && !Op(model, name).float_output) << name;
  }
  EXPECT_EQ(model.record.Root(Op(model, "qa").inputs[0]).scale,
            plain.record.Root(Op(plain, "qa").inputs[0]).scale);
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_EQ(CountOps(integer, "QLinearAdd"), 0);
  EXPECT_EQ(CountOps(integer, "ConvInteger"), 7);
  EXPECT_EQ(CountOps(integer, "QLinearConv"), 7);
  EXPECT_EQ(CountOps(integer, "QuantizeLinear"), 1 + 7);  // the input, and the readers of the trunk
  EXPECT_GT(Snr(graph, integer), Snr(graph, LowerToInteger(plain).graph()) + 1);
  EXPECT_NE(RecordToJson(model.record).find("\"floatOutput\":true"), std::string::npos);
}

/// Sums of large images next to few products cost more than they gain: only later ones become
/// float.
TEST(FloatSums, AsFarAsItPays) {
  Builder b;
  Noise noise(7);
  Value* x = b.Conv(b.Input("x", {1, 3, 64, 64}), "stem", {4, 3, 1, 1}, 0, noise);
  x = b.Op("Add", {x, b.Conv(x, "pb", {4, 4, 1, 1}, 0, noise)}, "p");
  x = b.Conv(x, "down", {6, 4, 8, 8}, 0, noise, 1, 8);
  for (const char* name : {"t", "u", "v", "w"}) {
    Value* wide =
        b.Op("Relu", {b.Conv(x, StrCat(name, "a"), {32, 6, 3, 3}, 1, noise)}, StrCat(name, "r"));
    x = b.Op("Add", {x, b.Conv(wide, StrCat(name, "b"), {6, 32, 3, 3}, 1, noise)}, name);
  }
  b.graph.AddOutput(b.Conv(x, "y", {5, 6, 1, 1}, 0, noise));
  const QuantizedModel model = Quantized(b.graph, {"float_sums"});
  EXPECT_EQ(model.record.recovery[0].detail,
            "4 sums, from 't_node' on, and what 5 layers add to them stay in float: 3456 values");
  EXPECT_TRUE(Op(model, "p").quantized);
  EXPECT_FALSE(Op(model, "t").quantized || Op(model, "w").quantized);
}

/// The engine computes what the simulator measured; codes may differ where a sum rounds
/// differently.
TEST(FloatSums, SimulatorIsTheIntegerNetwork) {
  const Graph graph = TwoChains();
  const QuantizedModel model = Quantized(graph, {"float_sums"});
  Simulator simulator(model.float_graph, model.record);
  for (const Node* node : simulator.nodes()) {
    if (!simulator.Layer(node)) continue;
    const int slot = model.record.operators.at(node->name).inputs[2];
    const Tensor bias = DequantizeParameter(model.record.configs[static_cast<size_t>(slot)].baked,
                                            model.record.configs[static_cast<size_t>(slot)]);
    const std::vector<float> floats = bias.ToFloats();
    const std::vector<double> values(floats.begin(), floats.end());
    simulator.SetWeights(node, &values);
  }
  const Graph integer = LowerToInteger(model).Release();
  const auto step = static_cast<double>(OutputScale(model, "y_node"));
  int apart = 0;
  int all = 0;
  for (uint32_t i = 0; i < 8; ++i) {
    const TensorMap feeds = RandomFeeds(graph, 40 + i);
    const Tensor wanted = Interpret(integer, feeds)[0];
    const Tensor got = simulator.Outputs(feeds, SimMode::kQuantized)[0];
    for (int64_t j = 0; j < wanted.count(); ++j, ++all) {
      const double difference = std::fabs(got.AsDouble(j) - wanted.AsDouble(j));
      EXPECT_LE(difference, 2.01 * step);
      apart += difference > 0.5 * step;
    }
  }
  EXPECT_LE(apart, all / 50);
}

TEST(FloatSums, ExportsSayTheSame) {
  const Graph graph = TwoChains();
  const QuantizedModel model = Quantized(graph, {"float_sums"});
  const Graph integer = LowerToInteger(model).Release();
  for (const Graph& file : {ToQdq(model), ToQOperator(model), ToQonnx(model)}) VerifyGraph(file);
  const Graph qdq = ToQdq(model);
  EXPECT_GT(Snr(integer, qdq), 45);
  const std::optional<QuantizedModel> read = FromQdq(qdq);
  ASSERT_TRUE(read);
  for (const auto& [name, op] : model.record.operators) {
    EXPECT_EQ(read->record.Find(name)->quantized, op.quantized) << name;
    EXPECT_EQ(read->record.Find(name)->float_output, op.float_output) << name;
  }
  EXPECT_EQ(LargestDifference(integer, LowerToInteger(*read).graph()), 0);
}

/// An option makes a layer write floats without any method.
TEST(FloatSums, ByName) {
  const Graph graph = TwoChains();
  QuantizeOptions options;
  options.recover = {};
  options.by_name["down_node"].float_output = true;
  // the layer computes its Relu as well, so it stays as it is
  options.by_name["pa_node"].float_output = true;
  const QuantizedModel model = QuantizeGraph(graph, options);
  EXPECT_TRUE(Op(model, "down").float_output);
  EXPECT_EQ(ResultState(model, "down"), QuantizationState::kFp32);
  EXPECT_FALSE(Op(model, "pa").float_output);
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_EQ(CountOps(integer, "ConvInteger"), 1);
  EXPECT_GT(Snr(graph, integer), 20);
}

TEST(FloatSums, ChangesNothingWhereItDoesNotPay) {
  const Graph graph = SmallNetwork();
  const QuantizedModel plain = Quantized(graph, {});
  const QuantizedModel model = Quantized(graph, {"float_sums"});
  EXPECT_EQ(model.record.recovery[0].detail, "everything stays quantized");
  EXPECT_EQ(LargestDifference(LowerToInteger(plain).graph(), LowerToInteger(model).graph()), 0);
  for (size_t i = 0; i < plain.record.configs.size(); ++i) {
    EXPECT_EQ(model.record.configs[i].state, plain.record.configs[i].state);
  }
}

TEST(FloatSums, SaysWhenThereIsNothingToDo) {
  Builder b;
  Noise noise(1);
  b.graph.AddOutput(b.Conv(b.Input("x", {1, 2, 4, 4}), "conv", {3, 2, 1, 1}, 0, noise));
  EXPECT_EQ(Quantized(b.graph, {"float_sums"}).record.recovery[0].detail,
            "there are no quantized sums of two computed values");
  const QuantizedModel none = Quantized(TwoChains(), {"float_sums"}, 0);
  ASSERT_EQ(none.record.warnings.size(), 1u);
  EXPECT_EQ(none.record.warnings[0], "float_sums had no samples to measure with: skipped");
}

TEST(SwitchedOff, ResultsOfLayersComeBack) {
  QuantizedModel model = Quantized(TwoChains(), {});
  const int index = Op(model, "down").outputs[0];
  const auto state = [&] { return model.record.configs[static_cast<size_t>(index)].state; };
  const std::vector<std::string> layers = {"down_node"};
  {
    const SwitchedOff off(model.record, {}, layers);
    EXPECT_EQ(state(), QuantizationState::kDeactivated);
    EXPECT_EQ(model.record.configs[static_cast<size_t>(Op(model, "down").inputs[0])].state,
              QuantizationState::kOverlapped);
  }
  EXPECT_EQ(state(), QuantizationState::kActivated);
}

}  // namespace
}  // namespace requant

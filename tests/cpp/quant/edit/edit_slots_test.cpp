// Single slots, by options and by edits of a quantized model. The oracle is a loop in double over
// codes that is written from the definition of a grid.
#include "quant/edit/edit_slots.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "ir/text.h"
#include "quant/grid/affine.h"
#include "quant/model.h"

namespace requant {
namespace {

Graph OneConv(uint32_t seed, int64_t channels = 5, int64_t size = 7) {
  Builder b;
  Noise noise(seed);
  Value* x = b.Input("x", {1, channels, size, size + 2});
  b.graph.AddOutput(b.Conv(x, "c", {channels + 2, channels, 3, 3}, 1, noise));
  return std::move(b.graph);
}

TensorQuantizationConfig& Slot(QuantizedModel& model, const std::string& node, bool is_output,
                               size_t slot) {
  const OperatorQuantization& op = model.record.operators.at(node);
  const int index = (is_output ? op.outputs : op.inputs)[slot];
  return model.record.configs[static_cast<size_t>(model.record.RootIndex(index))];
}

double Code(double x, const TensorQuantizationConfig& config) {
  const double scaled = x / static_cast<double>(config.scale[0]);
  return std::fmin(
      std::fmax(std::nearbyint(scaled) + config.offset[0], static_cast<double>(config.quant_min)),
      static_cast<double>(config.quant_max));
}

/// How many numbers of the network's output differ from those of the loop, and in how many of them
/// the sum is no tie within what float32 can tell. Every number of the loop comes from the codes of
/// the record, the float input and the bias as a real number.
void ExpectLoop(QuantizedModel& model, const Tensor& weights, const Tensor& bias) {
  const TensorQuantizationConfig& in = Slot(model, "c_node", false, 0);
  const TensorQuantizationConfig& w = Slot(model, "c_node", false, 1);
  const TensorQuantizationConfig& out = Slot(model, "c_node", true, 0);
  const Graph lowered = LowerToInteger(model).Release();
  const TensorMap feeds = RandomFeeds(model.float_graph, 77);
  const Tensor got = Interpret(lowered, feeds)[0];
  const Tensor& x = feeds.at("x");
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  int64_t at = 0;
  int clipped = 0;
  for (int64_t o = 0; o < weights.dim(0); ++o) {
    const double s_w = w.ScaleOfRow(o);
    const double unit = static_cast<double>(in.scale[0]) * s_w;
    for (int64_t row = 0; row < height; ++row) {
      for (int64_t column = 0; column < width; ++column, ++at) {
        double sum = std::nearbyint(bias.AsDouble(o) / unit);
        for (int64_t c = 0; c < channels; ++c) {
          for (int64_t k = 0; k < 9; ++k) {
            const int64_t r = row + k / 3 - 1, q = column + k % 3 - 1;
            if (r < 0 || q < 0 || r >= height || q >= width) continue;
            const double weight = weights.AsDouble((o * channels + c) * 9 + k) / s_w;
            const double code = std::fmin(std::fmax(std::nearbyint(weight) + w.OffsetOfRow(o),
                                                    static_cast<double>(w.quant_min)),
                                          static_cast<double>(w.quant_max));
            sum += (Code(x.AsDouble((c * height + r) * width + q), in) - in.offset[0]) *
                   (code - w.OffsetOfRow(o));
          }
        }
        const double scaled = sum * unit / static_cast<double>(out.scale[0]);
        if (std::fabs(std::fabs(scaled - std::trunc(scaled)) - 0.5) < 1e-4) continue;
        const double code = std::fmin(
            std::fmax(std::nearbyint(scaled) + out.offset[0], static_cast<double>(out.quant_min)),
            static_cast<double>(out.quant_max));
        clipped += code == static_cast<double>(out.quant_min) ||
                   code == static_cast<double>(out.quant_max);
        const double real = (code - out.offset[0]) * static_cast<double>(out.scale[0]);
        ASSERT_NEAR(got.AsDouble(at), real, 1e-3 * static_cast<double>(out.scale[0]))
            << "number " << at;
      }
    }
  }
  EXPECT_GT(clipped, 0);
}

QuantizeOptions Nearest() {
  QuantizeOptions options;
  options.recover = {};
  return options;
}

const Tensor& Constant(const QuantizedModel& model, const std::string& name) {
  return model.float_graph.FindValue(name)->constant;
}

TEST(SlotOptions, InputAndOutputOfOneOperatorAreSetApart) {
  QuantizeOptions options = Nearest();
  OperatorSettings settings;
  settings.inputs[0].quant_min = 20;
  settings.inputs[0].quant_max = 90;
  settings.inputs[1].bits = 5;
  settings.outputs[0].bits = 4;
  settings.outputs[0].symmetric = true;
  settings.outputs[0].given = {{0.25f}, {0}};
  options.by_name["c_node"] = settings;
  QuantizedModel model = QuantizeGraph(OneConv(3), options);
  EXPECT_EQ(Slot(model, "c_node", false, 0).quant_max, 90);
  EXPECT_EQ(Slot(model, "c_node", false, 1).quant_max, 15);
  EXPECT_EQ(Slot(model, "c_node", true, 0).quant_max, 7);
  EXPECT_EQ(Slot(model, "c_node", true, 0).scale[0], 0.25f);
  EXPECT_EQ(Slot(model, "c_node", true, 0).observer, "given");
  ExpectLoop(model, Constant(model, "c_w"), Constant(model, "c_b"));
}

std::string Refusal(const std::function<void()>& action, ErrorCode code) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    return StrCat(error.context().value, ": ", error.message());
  }
  return "nothing is refused";
}

TEST(SlotOptions, WhatASlotCannotHaveIsRefused) {
  const auto refused = [](const std::function<void(OperatorSettings&)>& change,
                          ErrorCode code = ErrorCode::kInvalidArgument) {
    QuantizeOptions options = Nearest();
    change(options.by_name["c_node"]);
    return Refusal([&] { QuantizeGraph(OneConv(3), options, 1); }, code);
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  has(refused([](auto& s) { s.inputs[7].bits = 4; }), "inputs[7]: input 7 of 'c_node'");
  has(refused([](auto& s) { s.inputs[2].bits = 4; }), "follows from those of other slots");
  has(refused([](auto& s) { s.inputs[0].quant_min = 9, s.inputs[0].quant_max = 9; }),
      "inputs[0].quantMin: quantMin 9 is not below quantMax 9");
  has(refused([](auto& s) { s.inputs[0].quant_max = 256; }), "inputs[0].quantMax");
  has(refused([](auto& s) { s.outputs[0].quant_min = -1; }), "unsigned bits");
  has(refused([](auto& s) { s.inputs[1].quant_min = 0; }), "unequal sides");
  has(refused([](auto& s) { s.inputs[1].momentum = 0.5; }), "momentum is of activations only");
  has(refused(
          [](auto& s) {
            s.inputs[0].given = {{0.0f}, {}};
          },
          ErrorCode::kInvalidQuantization),
      "inputs[0].scale: the scale 0 is no positive");
  has(refused(
          [](auto& s) {
            s.inputs[0].given = {{0.1f}, {256}};
          },
          ErrorCode::kInvalidQuantization),
      "is none of the codes 0..255");
  has(refused(
          [](auto& s) {
            s.inputs[0].symmetric = true, s.inputs[0].given = {{0.1f}, {3}};
          },
          ErrorCode::kInvalidQuantization),
      "zeroPoint: the zero point 3 is not 0");
  has(refused(
          [](auto& s) {
            s.inputs[0].power_of_2 = true, s.inputs[0].given = {{0.1f}, {3}};
          },
          ErrorCode::kInvalidQuantization),
      "no power of two");
}

TEST(SlotOptions, UnequalSymmetricCodesHoldBothSides) {
  TensorQuantizationConfig config;
  ApplySettings({.symmetric = true, .quant_min = -10, .quant_max = 100}, false, config);
  EXPECT_FLOAT_EQ(AffineFromRange(-1, 5, config).scale, 0.1f);
  EXPECT_FLOAT_EQ(AffineFromRange(-0.1, 5, config).scale, 0.05f);
  ApplySettings({.symmetric = true, .quant_min = 0, .quant_max = 100}, false, config);
  EXPECT_FLOAT_EQ(AffineFromRange(-7, 5, config).scale, 0.05f);
}

TEST(EditSlots, NoEditKeepsAllIntegers) {
  QuantizeOptions options;
  options.recover = {"round_weights", "bias_correction"};
  QuantizedModel model = QuantizeGraph(SmallNetwork(), options);
  const std::string before = PrintGraph(LowerToInteger(model).Release(), {100000});
  EditSlots(model, {});
  EXPECT_EQ(PrintGraph(LowerToInteger(model).Release(), {100000}), before);
  EXPECT_TRUE(
      std::none_of(model.record.warnings.begin(), model.record.warnings.end(),
                   [](const std::string& text) { return text.find("rounded") != text.npos; }));
}

TEST(EditSlots, EditedGridsAreThoseOfTheLoop) {
  for (uint32_t seed = 1; seed <= 6; ++seed) {
    QuantizedModel model = QuantizeGraph(OneConv(seed, 1 + seed, 3 + seed), Nearest());
    const auto zero = static_cast<int32_t>(20 + seed * 13);
    const SlotEdit edits[] = {
        {.node = "c_node", .quant_min = 5 + seed, .quant_max = 100, .offset = {{zero}}},
        {.node = "c_node", .slot = 1, .bits = 4, .quant_min = -7, .quant_max = 7, .scale = {{}}},
        {.node = "c_node",
         .is_output = true,
         .quant_min = 10,
         .quant_max = 200,
         .scale = {{0.002f + 0.001f * static_cast<float>(seed)}}}};
    EditSlots(model, edits);
    EXPECT_EQ(Slot(model, "c_node", false, 0).offset[0], zero);
    ExpectLoop(model, Constant(model, "c_w"), Constant(model, "c_b"));
  }
}

TEST(EditSlots, TheScaleFollowsFromTheRangeWhereItIsLeftOut) {
  QuantizedModel model = QuantizeGraph(OneConv(4), Nearest());
  const SlotEdit edit{.node = "c_node",
                      .bits = 6,
                      .quant_max = 63,
                      .range_min = -2.0,
                      .range_max = 4.3,
                      .scale = {{}}};
  EditSlots(model, {{edit}});
  const TensorQuantizationConfig& config = Slot(model, "c_node", false, 0);
  EXPECT_FLOAT_EQ(config.scale[0], 0.1f);
  EXPECT_EQ(config.offset[0], 20);
}

TEST(EditSlots, JoinedSlotsFollowTheOneThatDecides) {
  QuantizedModel model = QuantizeGraph(SmallNetwork(), Nearest());
  const SlotEdit decides{
      .node = "relu1_node", .is_output = true, .scale = {{0.125f}}, .offset = {{0}}};
  EditSlots(model, {{decides}});
  EXPECT_EQ(Slot(model, "conv2_node", false, 0).scale[0], 0.125f);
  const auto refused = [&](const SlotEdit& edit) {
    QuantizedModel copy{model.float_graph.Clone(), model.record};
    return Refusal([&] { EditSlots(copy, {{edit}}); }, ErrorCode::kInvalidQuantization);
  };
  const std::string joined = refused({.node = "conv2_node", .scale = {{0.5f}}});
  EXPECT_NE(joined.find("joined to output 0 of 'relu1_node'"), std::string::npos) << joined;
  EXPECT_EQ(refused({.node = "conv2_node", .scale = {{0.125f}}}), "nothing is refused");
  const std::string passive = refused({.node = "conv2_node", .slot = 2, .scale = {{0.5f}}});
  EXPECT_NE(passive.find("follows from those of other slots"), std::string::npos) << passive;
}

TEST(EditSlots, ImpossibleValuesAreRefused) {
  const QuantizedModel model = QuantizeGraph(SmallNetwork(), Nearest());
  const auto refused = [&](const SlotEdit& edit) {
    QuantizedModel copy{model.float_graph.Clone(), model.record};
    return Refusal([&] { EditSlots(copy, {{edit}}); }, ErrorCode::kInvalidQuantization);
  };
  const auto has = [](const std::string& text, const char* part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  const float infinity = HUGE_VALF;
  has(refused({.node = "conv1_node", .scale = {{0.0f}}}), "inputs[0].scale");
  has(refused({.node = "conv1_node", .scale = {{infinity}}}), "no positive finite");
  has(refused({.node = "conv1_node", .offset = {{300}}}), "zeroPoint");
  has(refused({.node = "conv1_node", .policy = "PER_TENSOR|LINEAR|SYMMETRICAL"}), "cannot be");
  has(refused({.node = "conv1_node", .bits = 4}), "none of 4 unsigned bits");
  has(refused({.node = "conv1_node",
               .policy = "PER_TENSOR|LINEAR|ASYMMETRICAL|POWER_OF_2",
               .scale = {{0.3f}}}),
      "no power of two");
  has(refused({.node = "conv1_node", .policy = "SQUARE"}), "there is no policy");
  has(refused({.node = "conv1_node", .rounding = "HALF"}), "there is no rounding");
  has(refused({.node = "conv1_node", .slot = 1, .scale = {{0.3f}}}), "1 scales do not fit 8");
  has(refused({.node = "conv1_node", .range_max = 3.0}), "no effect beside a scale");
  has(refused({.node = "conv1_node", .state = "INITIAL"}), "cannot go from");
  has(refused({.node = "add_node", .state = "DEQUANTIZED"}), "together with what reads it");
  has(refused({.node = "pool_node", .state = "DEQUANTIZED"}), "integers in outputs[0]");
}

TEST(EditSlots, OtherRoundingIsSimulatedAndComesBack) {
  QuantizedModel model = QuantizeGraph(OneConv(2), Nearest());
  const std::string before = PrintGraph(LowerToInteger(model).Release(), {100000});
  EditSlots(model, {{{.node = "c_node", .rounding = "HALF_UP"}}});
  EXPECT_TRUE(model.record.operators.at("c_node").simulated);
  EXPECT_EQ(CountOps(LowerToInteger(model).Release(), "QLinearConv"), 0);
  EditSlots(model, {{{.node = "c_node", .rounding = "HALF_EVEN"}}});
  EXPECT_EQ(PrintGraph(LowerToInteger(model).Release(), {100000}), before);
}

TEST(EditSlots, ALayerThatLeavesItsGridWritesFloats) {
  QuantizedModel model = QuantizeGraph(OneConv(2), Nearest());
  EditSlots(model, {{{.node = "c_node", .is_output = true, .state = "DEQUANTIZED"}}});
  EXPECT_TRUE(model.record.operators.at("c_node").float_output);
  EXPECT_EQ(CountOps(LowerToInteger(model).Release(), "ConvInteger"), 1);
  const SlotEdit all[] = {{.node = "c_node", .state = "DEQUANTIZED"},
                          {.node = "c_node", .slot = 1, .state = "DEQUANTIZED"}};
  EditSlots(model, all);
  EXPECT_FALSE(model.record.operators.at("c_node").quantized);
  EXPECT_EQ(CountOps(LowerToInteger(model).Release(), "Conv"), 1);
}

}  // namespace
}  // namespace requant

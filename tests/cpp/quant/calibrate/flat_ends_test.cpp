// A range does not cover values that only the flat end of a table reads.
#include "quant/calibrate/flat_ends.h"

#include <gtest/gtest.h>

#include "ir/verify.h"
#include "quant/assign/table_region.h"
#include "quant/model.h"

namespace requant {
namespace {

/// A graph whose value x is read by the functions of that name; each is an output.
Graph Functions(const std::vector<std::string>& types) {
  Builder b;
  Noise noise(3);
  Value* x = b.Conv(b.Input("x", {1, 3, 8, 8}), "c", {4, 3, 3, 3}, 1, noise);
  for (const std::string& type : types) b.graph.AddOutput(b.Op(type, {x}, type));
  return std::move(b.graph);
}

const TensorQuantizationConfig& Slot(const QuantizedModel& model, const char* node) {
  return model.record.Root(model.record.operators.at(node).outputs[0]);
}

QuantizedModel Quantized(const Graph& graph, const QuantizeOptions& options = {}) {
  Quantizer quantizer(FloatModel(graph), options);
  Calibrate(quantizer, quantizer.graph(), 8);
  return quantizer.Finish();
}

/// Like Functions, with the results of the layer scaled by `factor`.
QuantizedModel Scaled(const std::vector<std::string>& types, float factor,
                      const QuantizeOptions& options = {}) {
  Graph graph = Functions(types);
  Tensor& weights = graph.FindValue("c_w")->constant;
  for (int64_t i = 0; i < weights.count(); ++i) weights.data<float>()[i] *= factor;
  return Quantized(graph, options);
}

TEST(FlatEnds, AWideRangeBeforeASigmoidIsCut) {
  const QuantizedModel model = Scaled({"Sigmoid"}, 30);
  const TensorQuantizationConfig& config = Slot(model, "c_node");
  // sigmoid(x) = 1 / (4 * 255) at -6.93, and a step more for the rounding of the zero point.
  EXPECT_NEAR(config.range_min, -6.93, 0.3);
  EXPECT_NEAR(config.range_max, 6.93, 0.3);
  EXPECT_GT(Snr(model.float_graph, LowerToInteger(model).graph()), 36);
}

TEST(FlatEnds, EveryReaderCounts) {
  // Tanh is flat beyond 3.5, Sigmoid later.
  const QuantizedModel both = Scaled({"Tanh", "Sigmoid"}, 30);
  EXPECT_NEAR(Slot(both, "c_node").range_max, 6.93, 0.3);
  const QuantizedModel tanh = Scaled({"Tanh"}, 30);
  EXPECT_NEAR(Slot(tanh, "c_node").range_max, 3.4, 0.3);
  // Softplus is flat on one side only, Abs on none.
  const QuantizedModel one = Scaled({"Softplus"}, 30);
  EXPECT_GT(Slot(one, "c_node").range_min, -7);
  EXPECT_GT(Slot(one, "c_node").range_max, 30);
  const QuantizedModel none = Scaled({"Sigmoid", "Abs"}, 30);
  EXPECT_LT(Slot(none, "c_node").range_min, -30);
}

TEST(FlatEnds, WhatOthersReadStays) {
  Graph graph = Functions({"Sigmoid"});
  Value* x = graph.FindValue("c");
  graph.AddOutput(x);
  Tensor& weights = graph.FindValue("c_w")->constant;
  for (int64_t i = 0; i < weights.count(); ++i) weights.data<float>()[i] *= 30;
  EXPECT_GT(Slot(Quantized(graph), "c_node").range_max, 30);

  // Moved values share the scale.
  Graph moved = Functions({"Sigmoid"});
  Value* turned = moved.AddOp("Transpose", "", {moved.FindValue("c")}, "turned", {}, {}, "turn");
  moved.AddOutput(moved.AddOp("Tanh", "", {turned}, "tanh", {}, {}, "tanh_node"));
  for (int64_t i = 0; i < weights.count(); ++i) {
    moved.FindValue("c_w")->constant.data<float>()[i] *= 30;
  }
  EXPECT_GT(Slot(Quantized(moved), "c_node").range_max, 30);
}

TEST(FlatEnds, ANarrowRangeStays) {
  const QuantizedModel model = Scaled({"Sigmoid"}, 0.5);
  const TensorQuantizationConfig& config = Slot(model, "c_node");
  const Range range{config.range_min, config.range_max};
  const int root = model.record.RootIndex(model.record.operators.at("c_node").outputs[0]);
  const Range again = WithoutFlatEnds(model.float_graph, model.record, root, range);
  EXPECT_EQ(again.min, range.min);
  EXPECT_EQ(again.max, range.max);
}

/// This holds for all observers, and for few bits as well.
TEST(FlatEnds, AllObservers) {
  for (const char* observer : {"minmax", "moving_average", "percentile", "kl", "mse", "auto"}) {
    QuantizeOptions options;
    options.global.activations.observer = observer;
    EXPECT_LT(Slot(Scaled({"Tanh"}, 30, options), "c_node").range_max, 4) << observer;
  }
  QuantizeOptions narrow;
  narrow.global.activations.bits = 4;
  const QuantizedModel model = Scaled({"Tanh"}, 30, narrow);
  EXPECT_LT(Slot(model, "c_node").range_max, 3);
}

TEST(FlatEnds, OutermostCodesGiveTheFlatResult) {
  const QuantizedModel model = Scaled({"HardSigmoid"}, 30);
  const TensorQuantizationConfig& config = Slot(model, "c_node");
  Tensor ends(DType::kFloat32, {2});
  for (const int i : {0, 1}) {
    const auto code = static_cast<float>(i == 0 ? config.quant_min : config.quant_max);
    ends.data<float>()[i] = (code - static_cast<float>(config.offset[0])) * config.scale[0];
  }
  const Tensor made =
      EvaluateRegion(model.float_graph, model.record.operators.at("HardSigmoid_node"), ends);
  EXPECT_LE(made.data<float>()[0], 0.25f / 255);
  EXPECT_GE(made.data<float>()[1], 1 - 0.25f / 255);
}

TEST(TableRegion, ASlopeOfAsManyAxes) {
  Builder b;
  Noise noise(5);
  Value* x = b.Conv(b.Input("x", {1, 3, 8, 8}), "c", {4, 3, 3, 3}, 1, noise);
  Value* slope = b.Const("slope", Tensor::FromVector<float>({0.25f}, {1, 1, 1}));
  b.graph.AddOutput(b.Op("PRelu", {x, slope}, "y"));
  const QuantizedModel model = Quantized(b.graph);
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_EQ(CountOps(integer, "Lut"), 1);
  EXPECT_GT(Snr(model.float_graph, integer), 30);
}

}  // namespace
}  // namespace requant

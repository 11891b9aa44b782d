// ConvTranspose in the quantizer: integers, exports and reading them back, recovery.
#include <gtest/gtest.h>

#include "ir/text.h"
#include "ir/verify.h"
#include "quant/assign/assign.h"
#include "quant/file/spell_pairs.h"
#include "quant/model.h"
#include "quant/sim/layer.h"

namespace requant {
namespace {

Value* Transposed(Builder& b, Value* x, const std::string& name, const Shape& weights,
                  int64_t group, Noise& noise) {
  AttributeMap attributes;
  attributes.Set("strides", std::vector<int64_t>{2, 2});
  attributes.Set("pads", std::vector<int64_t>{1, 0, 1, 1});
  attributes.Set("output_padding", std::vector<int64_t>{1, 0});
  attributes.Set("group", group);
  const float fan = 1.0f / std::sqrt(static_cast<float>(weights[0] / group * weights[2]));
  Value* w = b.Const(name + "_w", noise.Make(weights, fan));
  Value* bias = b.Const(name + "_b", noise.Make({weights[1] * group}, 0.1f));
  return b.Op("ConvTranspose", {x, w, bias}, name, std::move(attributes));
}

/// conv-relu, upsampled twice: with a Relu, and with groups (of one channel if `depthwise`).
Graph Decoder(bool depthwise) {
  Builder b;
  Noise noise(11);
  Value* x = b.Input("x", {1, 3, 6, 6});
  Value* first = b.Op("Relu", {b.Conv(x, "first", {8, 3, 3, 3}, 1, noise)}, "relu1");
  Value* up = b.Op("Relu", {Transposed(b, first, "up", {8, 6, 3, 3}, 1, noise)}, "relu2");
  Value* grouped = depthwise ? Transposed(b, up, "grouped", {6, 1, 4, 4}, 6, noise)
                             : Transposed(b, up, "grouped", {6, 2, 4, 4}, 2, noise);
  b.graph.AddOutput(b.Conv(grouped, "y", {5, depthwise ? 6 : 4, 1, 1}, 0, noise));
  return std::move(b.graph);
}

TEST(QuantizedConvTranspose, IsAnIntegerOperatorAndComesBack) {
  for (const bool depthwise : {false, true}) {
    const Graph graph = Decoder(depthwise);
    const QuantizedModel model = QuantizeGraph(graph);
    const Graph integer = LowerToInteger(model).Release();
    VerifyGraph(integer);
    EXPECT_EQ(CountOps(integer, "QLinearConvTranspose"), 2);
    EXPECT_EQ(CountOps(integer, "ConvTranspose") + CountOps(integer, "Relu"), 0);
    EXPECT_GT(Snr(graph, integer), 30);
    // There is a scale for each output channel if one axis of the weights holds them.
    const auto scales = [&model](const char* node) {
      const int slot = model.record.operators.at(node).inputs[1];
      return model.record.configs[static_cast<size_t>(slot)].scale.size();
    };
    EXPECT_EQ(scales("up_node"), 6U);
    EXPECT_EQ(scales("grouped_node"), depthwise ? 6U : 2U);  // shared by both groups

    const Graph qdq = ToQdq(model);
    VerifyGraph(qdq);
    EXPECT_EQ(CountOps(qdq, "ConvTranspose"), 2);
    const std::optional<QuantizedModel> read = FromQdq(qdq);
    ASSERT_TRUE(read.has_value());
    EXPECT_EQ(LargestDifference(integer, LowerToInteger(*read).graph()), 0);

    Graph qoperator = ToQOperator(model);
    VerifyGraph(qoperator);
    EXPECT_EQ(CountOps(qoperator, "QLinearConvTranspose"), 0);
    EXPECT_EQ(CountOps(qoperator, "ConvTranspose"), 2);
    const double step = static_cast<double>(OutputScale(model, "y_node"));
    EXPECT_LE(LargestDifference(qdq, qoperator), 1.01 * step);
    EXPECT_LE(LargestDifference(integer, qoperator), 2.01 * step);
    // Read back, the operator is integer again.
    EXPECT_TRUE(JoinPairs(qoperator));
    VerifyGraph(qoperator);
    EXPECT_EQ(CountOps(qoperator, "QLinearConvTranspose"), 2);
    EXPECT_EQ(CountOps(qoperator, "ConvTranspose"), 0);
    EXPECT_EQ(LargestDifference(integer, qoperator), 0);
    EXPECT_FALSE(JoinPairs(qoperator));
  }
}

/// A float output is not rounded to a grid before.
TEST(QuantizedConvTranspose, LastOneStaysFloat) {
  Builder b;
  Noise noise(12);
  Value* first = b.Conv(b.Input("x", {1, 3, 6, 6}), "first", {8, 3, 3, 3}, 1, noise);
  Value* relu = b.Op("Relu", {first}, "relu");
  b.graph.AddOutput(Transposed(b, relu, "y", {8, 2, 3, 3}, 1, noise));
  const Graph bytes = LowerToInteger(QuantizeGraph(b.graph)).Release();
  EXPECT_EQ(CountOps(bytes, "QLinearConvTranspose"), 1);
  const Graph floats = LowerToInteger(QuantizeGraph(b.graph, {.float_outputs = true})).Release();
  VerifyGraph(floats);
  EXPECT_EQ(CountOps(floats, "ConvTranspose"), 1);
  EXPECT_GT(Snr(b.graph, floats), Snr(b.graph, bytes));
}

/// Other tools write a scale for each entry of axis 1, which all groups share.
TEST(QuantizedConvTranspose, GroupsShareTheScalesOfAFile) {
  Graph graph = ParseGraph(R"(graph "" opset 13
    input %x: float32[1, 4, 3, 3]
    const %xs: float32[] = {0.05}
    const %xz: uint8[] = {120}
    const %wq: int8[4, 2, 1, 2] = {5, -7, 100, 3, 20, 90, -90, 1, 2, 3, 4, 50, -60, 7, 80, 99}
    const %ws: float32[2] = {0.02, 0.005}
    const %wz: int8[2] = {0, 0}
    const %bq: int32[4] = {100, -200, 300, 400}
    const %bs: float32[4] = {0.001, 0.00025, 0.001, 0.00025}
    const %bz: int32[4] = {0, 0, 0, 0}
    const %ys: float32[] = {0.0973}
    const %yz: uint8[] = {100}
    %q = QuantizeLinear(%x, %xs, %xz)
    %r = DequantizeLinear(%q, %xs, %xz)
    %w = DequantizeLinear(%wq, %ws, %wz) {axis = 1}
    %b = DequantizeLinear(%bq, %bs, %bz) {axis = 0}
    %c = ConvTranspose(%r, %w, %b) {strides = [2, 3], group = 2}
    %cq = QuantizeLinear(%c, %ys, %yz)
    %y = DequantizeLinear(%cq, %ys, %yz)
    output %y)");
  const std::optional<QuantizedModel> read = FromQdq(graph);
  ASSERT_TRUE(read.has_value());
  const Graph integer = LowerToInteger(*read).Release();
  EXPECT_EQ(CountOps(integer, "QLinearConvTranspose"), 1);
  EXPECT_LE(LargestDifference(graph, integer), 0.0974);
  EXPECT_LE(LargestDifference(graph, ToQOperator(*read)), 0.0974);
  EXPECT_LE(LargestDifference(graph, ToQdq(*read)), 1e-6);
}

/// Without a bias, y is linear in x and in the weights: <dy, y> = <dx, x> = <dw, w>.
TEST(QuantizedConvTranspose, LayerMathForwardAndBackward) {
  for (const bool depthwise : {false, true}) {
    const Graph graph = Decoder(depthwise);
    for (const char* name : {"up_node", "grouped_node"}) {
      const Node& node = *graph.FindNode(name);
      const Tensor& weights = node.inputs[1]->constant;
      Noise noise(4);
      const Tensor x = noise.Make({2, weights.dim(0), 4, 5});
      LayerMath math(node, QuantRule::kConv);
      const std::vector<float> zeros(static_cast<size_t>(math.view().rows));
      const Tensor none = Tensor::FromVector(zeros, {math.view().rows});
      const std::vector<const Tensor*> inputs = {&x, &weights, &none};
      const Tensor wanted = EvaluateNode(graph, node, inputs, RequantizeMode::kUpward)[0];
      const Tensor y = math.Forward(x, weights.data<float>(), zeros);
      ASSERT_EQ(y.shape(), wanted.shape());
      const Tensor dy = noise.Make(y.shape());
      std::vector<float> dw(static_cast<size_t>(weights.count()));
      std::vector<float> db(zeros.size());
      Tensor dx;
      math.Backward(x, weights.data<float>(), dy, dw.data(), db.data(), &dx);
      double along_y = 0, along_x = 0, along_w = 0, sum = 0, of_bias = 0;
      for (int64_t i = 0; i < y.count(); ++i) {
        EXPECT_NEAR(y.AsDouble(i), wanted.AsDouble(i), 1e-4);
        along_y += y.AsDouble(i) * dy.AsDouble(i);
        sum += dy.AsDouble(i);
      }
      for (int64_t i = 0; i < x.count(); ++i) along_x += x.AsDouble(i) * dx.AsDouble(i);
      for (size_t i = 0; i < dw.size(); ++i) {
        along_w += weights.AsDouble(static_cast<int64_t>(i)) * static_cast<double>(dw[i]);
      }
      for (const float gradient : db) of_bias += static_cast<double>(gradient);
      EXPECT_NEAR(along_x, along_y, 1e-3 * std::fabs(along_y) + 1e-3);
      EXPECT_NEAR(along_w, along_y, 1e-3 * std::fabs(along_y) + 1e-3);
      EXPECT_NEAR(of_bias, sum, 1e-3);
    }
  }
}

TEST(QuantizedConvTranspose, WeightsAreLearnedToo) {
  const Graph graph = Decoder(false);
  const auto snr = [&graph](std::vector<std::string> recover) {
    QuantizeOptions options;
    options.global.weights.bits = 3;
    options.recover = std::move(recover);
    Quantizer quantizer(FloatModel(graph), options);
    for (uint32_t i = 0; i < 32; ++i) quantizer.Keep(RandomFeeds(graph, 100 + i));
    Calibrate(quantizer, quantizer.graph(), 32);
    return Snr(graph, LowerToInteger(quantizer.Finish()).graph(), 32);
  };
  const double plain = snr({});
  EXPECT_GT(snr({"round_weights"}), plain + 0.5);
  EXPECT_GT(snr({"adaround"}), plain + 1);
}

}  // namespace
}  // namespace requant

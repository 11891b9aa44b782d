// The last operators stay in float if they cost next to nothing.
#include <gtest/gtest.h>

#include "ir/verify.h"
#include "quant/model.h"

namespace requant {
namespace {

/// Two layers and a classifier with `classes` outputs that reads the means of 64 channels.
Graph Classifier(int64_t classes) {
  Builder b;
  Noise noise(21);
  Value* x =
      b.Op("Relu", {b.Conv(b.Input("x", {1, 3, 8, 8}), "c1", {32, 3, 3, 3}, 1, noise)}, "r1");
  x = b.Op("Relu", {b.Conv(x, "c2", {64, 32, 3, 3}, 1, noise)}, "r2");
  AttributeMap flat, gemm;
  flat.Set("axis", int64_t{1});
  gemm.Set("transB", int64_t{1});
  Value* rows = b.Op("Flatten", {b.Op("GlobalAveragePool", {x}, "mean")}, "flat", flat);
  b.graph.AddOutput(b.Op(
      "Gemm", {rows, b.Const("w", noise.Make({classes, 64})), b.Const("b", noise.Make({classes}))},
      "y", gemm));
  return std::move(b.graph);
}

QuantizedModel Quantized(const Graph& graph, std::vector<std::string> recover) {
  QuantizeOptions options;
  options.recover = std::move(recover);
  options.float_outputs = true;
  Quantizer quantizer(FloatModel(graph), options);
  for (uint32_t i = 0; i < 16; ++i) quantizer.Keep(RandomFeeds(graph, 100 + i));
  Calibrate(quantizer, quantizer.graph(), 16);
  return quantizer.Finish();
}

TEST(FloatEnd, ASmallClassifierIsFloat) {
  const Graph graph = Classifier(6);
  const QuantizedModel plain = Quantized(graph, {});
  const QuantizedModel model = Quantized(graph, {"float_end"});
  ASSERT_EQ(model.record.recovery.size(), 1u);
  EXPECT_EQ(model.record.recovery[0].detail,
            "the last 3 operators, from 'mean_node' on, stay in float");
  for (const char* name : {"mean_node", "flat_node", "y_node"}) {
    EXPECT_FALSE(model.record.operators.at(name).quantized) << name;
    EXPECT_EQ(model.record.operators.at(name).reason, "float_end keeps it in float");
  }
  for (const char* name : {"c1_node", "c2_node"}) {
    EXPECT_TRUE(model.record.operators.at(name).quantized) << name;
  }
  const Graph integer = LowerToInteger(model).Release();
  VerifyGraph(integer);
  EXPECT_EQ(CountOps(integer, "Gemm"), 1);
  EXPECT_EQ(CountOps(integer, "QLinearConv"), 2);
  EXPECT_GT(Snr(graph, integer), Snr(graph, LowerToInteger(plain).graph()) + 1);
  for (const Graph& file : {ToQdq(model), ToQOperator(model), ToQonnx(model)}) {
    VerifyGraph(file);
    EXPECT_EQ(file.FindValue("w")->constant.dtype(), DType::kFloat32);
  }
}

/// Its float weights would take four times the bytes.
TEST(FloatEnd, ALargeClassifierIsNot) {
  const QuantizedModel model = Quantized(Classifier(20), {"float_end"});
  EXPECT_EQ(model.record.recovery[0].detail, "everything stays quantized");
  EXPECT_TRUE(model.record.operators.at("y_node").quantized);
}

}  // namespace
}  // namespace requant

// The passes that depend on the planner or the quantizer, on the shipped model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "api/requant.h"
#include "support/files.h"

namespace requant {
namespace {

const std::string kDemos = std::string(REQUANT_SOURCE_DIR) + "/demos/";

PipelineReport RunOnly(Graph& graph, const std::string& name) {
  PipelineOptions options;
  options.only = {name};
  options.more = ApiPasses();
  options.verify = true;
  return RunPasses(graph, options);
}

size_t Count(const Graph& graph, std::string_view op) {
  return static_cast<size_t>(std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                           [op](const auto& node) { return node->op_type == op; }));
}

int64_t Peak(const Graph& graph) {
  int64_t most = -1;
  for (const auto& node : graph.nodes()) most = std::max(most, node->used_bytes);
  return most;
}

Graph DemoQdq() {
  const Graph graph = testing::ReadModelFile(kDemos + "models/fashion_mnist.onnx");
  Calibrator calibrator(graph, {});
  const auto images = testing::ReadIdxImages(kDemos + "data/calibration-images-idx3-ubyte", 8);
  for (int pass = 0; pass < calibrator.passes(); ++pass) {
    for (const Tensor& image : images) calibrator.Add(pass, {{"image", image}});
  }
  return ToQdq(calibrator.Finish());
}

/// The graph for one image: AnnotateUsedMemory needs known sizes.
Graph OfOneImage(Graph graph) {
  for (Value* input : graph.inputs()) (*input->type.shape)[0] = 1;
  for (const auto& value : graph.values()) {
    if (value->producer) value->type.shape.reset();
  }
  for (const auto& node : graph.nodes()) node->typed = false;
  RunPasses(graph, {});
  return graph;
}

TEST(AnnotateUsedMemory, PeakIsTheArena) {
  const Graph source = testing::ReadModelFile(kDemos + "models/fashion_mnist.onnx");
  for (const bool quantized : {false, true}) {
    Graph graph = quantized ? DemoQdq() : source.Clone();
    graph = OfOneImage(std::move(graph));
    if (quantized) {
      EXPECT_TRUE(RunOnly(graph, "Legalize").passes[0].changed);
      RunPasses(graph, {});
    }
    EXPECT_TRUE(RunOnly(graph, "AnnotateUsedMemory").passes[0].changed);
    for (const auto& node : graph.nodes()) EXPECT_GT(node->used_bytes, 0) << node->name;
    Session session(graph.Clone(), {});
    ASSERT_TRUE(session.Prepare());
    EXPECT_EQ(static_cast<size_t>(Peak(graph)), session.plan()->arena_bytes);
    EXPECT_EQ(session.plan()->arena_bytes, session.plan()->arena_lower_bound);
    // The text form keeps the annotations.
    const Graph again = ParseGraph(PrintGraph(graph));
    EXPECT_EQ(Peak(again), Peak(graph));
    EXPECT_NE(GraphToDot(graph).find("bytes in use"), std::string::npos);
  }
}

TEST(AnnotateUsedMemory, LeavesOpenShapesAlone) {
  Graph graph = ParseGraph(R"(graph "" opset 13
    input %x: float32[N, 4]
    %y = Relu(%x)
    output %y)");
  EXPECT_FALSE(RunOnly(graph, "AnnotateUsedMemory").passes[0].changed);
  EXPECT_EQ(graph.nodes()[0]->used_bytes, -1);
}

TEST(AnnotateUsedMemory, CountsWhatIsAlive) {
  // Each value has 64 * 4 bytes; %a lives beside %b and %c.
  Graph graph = ParseGraph(R"(graph "" opset 13
    input %x: float32[64]
    %a = Relu(%x) "a"
    %b = Exp(%a) "b"
    %c = Exp(%b) "c"
    %y = Add(%a, %c) "y"
    output %y)");
  RunOnly(graph, "AnnotateUsedMemory");
  std::string text;
  for (const auto& node : graph.nodes()) text += std::to_string(node->used_bytes / 256);
  EXPECT_EQ(text, "1232");
}

TEST(Legalize, MakesIntegerOperators) {
  Graph graph = DemoQdq();
  const auto images = testing::ReadIdxImages(kDemos + "data/test-images-idx3-ubyte", 3);
  RunPasses(graph, {});
  const Graph before = graph.Clone();
  EXPECT_GT(Count(graph, "DequantizeLinear"), 5U);
  EXPECT_TRUE(RunOnly(graph, "Legalize").passes[0].changed);
  EXPECT_EQ(Count(graph, "Conv") + Count(graph, "Gemm"), 0U);
  EXPECT_GT(Count(graph, "QLinearConv"), 2U);
  EXPECT_LE(Count(graph, "DequantizeLinear"), 1U);  // for the output
  for (const Tensor& image : images) {
    InterpretOptions options;
    options.requantize = RequantizeMode::kFloat;
    const Tensor a = Interpret(before, {{"image", image}})[0];
    const Tensor b = Interpret(graph, {{"image", image}}, options)[0];
    double largest = 1;
    double worst = 0;
    for (int64_t i = 0; i < a.count(); ++i) {
      largest = std::max(largest, std::fabs(a.AsDouble(i)));
      worst = std::max(worst, std::fabs(a.AsDouble(i) - b.AsDouble(i)));
    }
    EXPECT_LE(worst, ApiPasses()[0].bound * largest);
  }
  // Once the pairs are legalized, nothing is left to do.
  EXPECT_FALSE(RunOnly(graph, "Legalize").passes[0].changed);
}

TEST(Legalize, LeavesFloatNetworksAlone) {
  Graph graph = testing::ReadModelFile(kDemos + "models/fashion_mnist.onnx");
  const std::string before = PrintGraph(graph);
  EXPECT_FALSE(RunOnly(graph, "Legalize").passes[0].changed);
  EXPECT_EQ(PrintGraph(graph), before);
}

TEST(ApiPasses, AreListed) {
  const std::string json = PassesJson();
  EXPECT_NE(json.find("\"Legalize\""), std::string::npos);
  EXPECT_NE(json.find("\"AnnotateUsedMemory\""), std::string::npos);
  EXPECT_NE(json.find("\"FlattenAtrousConv\""), std::string::npos);
}

}  // namespace
}  // namespace requant

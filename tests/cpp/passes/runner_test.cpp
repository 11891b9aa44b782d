// The pipeline as a whole: options, reports, errors; contradictions found by InferTypes; fusion
// groups.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "interpret/interpreter.h"
#include "ir/text.h"
#include "passes/pass.h"
#include "passes/runner.h"
#include "passes/shape/infer_type.h"

namespace requant {
namespace {

/// A classifier as PyTorch exports it: Conv, BatchNormalization, Relu, mean, flatten by shape,
/// Gemm.
constexpr const char* kNetwork = R"(graph "net" opset 13
input %x: float32[N, 1, 4, 4]
const %w: float32[2, 1, 3, 3] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 9.0, 8.0, 7.0, 6.0, 5.0, 4.0, 3.0, 2.0, 1.0}
const %g: float32[2] = {1.0, 0.5}
const %b: float32[2] = {0.1, 0.2}
const %m: float32[2] = {0.3, 0.4}
const %v: float32[2] = {1.0, 2.0}
const %fc: float32[2, 3] = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}
const %fb: float32[3] = {0.5, 0.25, 0.0}
const %zero: int64[] = {0}
const %axes: int64[1] = {0}
const %rest: int64[1] = {-1}
%c = Conv(%x, %w) {pads = [1, 1, 1, 1]}
%n = BatchNormalization(%c, %g, %b, %m, %v)
%r = Relu(%n)
%p = ReduceMean(%r) {axes = [2, 3]}
%s = Shape(%p)
%d = Gather(%s, %zero)
%u = Unsqueeze(%d, %axes)
%t = Concat(%u, %rest) {axis = 0}
%f = Reshape(%p, %t)
%h = MatMul(%f, %fc)
%y: float32[N, 3] = Add(%h, %fb)
%dead = Neg(%y)
output %y
)";

std::vector<std::string> Operators(const Graph& graph) {
  std::vector<std::string> out;
  for (const auto& node : graph.nodes()) out.push_back(node->op_type);
  return out;
}

TEST(RunPasses, ReducesAnExportedClassifierToItsLayers) {
  Graph graph = ParseGraph(kNetwork);
  PipelineOptions options;
  options.verify = true;
  const PipelineReport report = RunPasses(graph, options);
  EXPECT_EQ(Operators(graph),
            (std::vector<std::string>{"Conv", "Relu", "GlobalAveragePool", "Reshape", "Gemm"}));
  EXPECT_EQ(TypeToString(graph.outputs()[0]->type), "float32[N, 3]");
  EXPECT_LE(report.rounds, 4);
  // The pipeline ends as soon as every pass has found nothing to do since the last change.
  const auto in_pipeline = std::count_if(PassTable().begin(), PassTable().end(),
                                         [](const Pass& pass) { return !pass.optional(); });
  ASSERT_GE(report.passes.size(), static_cast<size_t>(in_pipeline));
  const auto last =
      std::find_if(report.passes.rbegin(), report.passes.rend(),
                   [](const PassReport& pass) { return pass.changed && pass.name != "FuseOps"; });
  EXPECT_EQ(last - report.passes.rbegin(), in_pipeline);
  EXPECT_EQ(report.passes.front().nodes_before, 12U);
  EXPECT_EQ(report.passes.back().nodes_after, 5U);
  EXPECT_FALSE(report.passes.back().changed);
}

TEST(RunPasses, TakesOptions) {
  Graph graph = ParseGraph(kNetwork);
  PipelineOptions options;
  options.only = {"DeadCodeElimination"};
  static double clock = 0;
  options.now = [] { return clock += 2; };
  std::vector<std::string> dumped;
  options.dump = [&dumped](const char* pass, const Graph&) { dumped.emplace_back(pass); };
  const PipelineReport report = RunPasses(graph, options);
  EXPECT_EQ(graph.nodes().size(), 11U);
  EXPECT_EQ(dumped, (std::vector<std::string>{"", "DeadCodeElimination"}));
  ASSERT_EQ(report.passes.size(), 2U);  // once to work, once to find nothing
  EXPECT_EQ(report.passes[0].milliseconds, 2);
  EXPECT_TRUE(report.passes[0].changed);

  graph = ParseGraph(kNetwork);
  options = {};
  options.disable = {"SimplifyInference"};
  RunPasses(graph, options);
  EXPECT_NE(graph.FindNode("BatchNormalization#1"), nullptr);

  for (const bool only : {true, false}) {
    options = {};
    (only ? options.only : options.disable) = {"NoSuchPass"};
    try {
      RunPasses(graph, options);
      FAIL();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_NE(error.message().find("NoSuchPass"), std::string::npos);
      EXPECT_NE(error.context().hint.find("SimplifyExpr"), std::string::npos);
    }
  }
}

TEST(Functions, KeepTheirBound) {
  constexpr const char* kText = R"(graph "" opset 20, com.microsoft 1
    input %x: float32[8001]
    %t = Tanh(%x)
    %s = Sigmoid(%x)
    %e = Erf(%x)
    %g = Gelu(%x)
    %m = com.microsoft::Gelu(%x)
    %l = com.microsoft::QuickGelu(%x) {alpha = 1.0}
    %w = Exp(%x)
    %o = Softmax(%x)
    output %t
    output %s
    output %e
    output %g
    output %m
    output %l
    output %w
    output %o)";
  Tensor x(DType::kFloat32, {8001});
  for (int i = 0; i < 8001; ++i) x.data<float>()[i] = static_cast<float>(i - 4000) / 200;
  const Graph before = ParseGraph(kText);
  const std::vector<Tensor> wanted = Interpret(before, {{"x", x}});
  for (const Pass& pass : PassTable()) {
    if (pass.bound < 1e-4) continue;
    Graph after = before.Clone();
    InferTypes(after);
    PipelineOptions options;
    options.only = {pass.name};
    RunPasses(after, options);
    const std::vector<Tensor> got = Interpret(after, {{"x", x}});
    double largest = 0;
    for (size_t output = 0; output < wanted.size(); ++output) {
      for (int64_t i = 0; i < x.count(); ++i) {
        const double error = std::fabs(wanted[output].AsDouble(i) - got[output].AsDouble(i)) /
                             std::max(1.0, std::fabs(wanted[output].AsDouble(i)));
        ASSERT_LE(error, pass.bound)
            << pass.name << " output " << output << " at " << x.AsDouble(i);
        largest = std::max(largest, error);
      }
    }
    EXPECT_GT(largest, pass.bound / 2) << pass.name << " could state a smaller bound";
  }
}

void ExpectContradiction(const char* text, ErrorCode code, const std::string& what) {
  Graph graph = ParseGraph(text);
  try {
    InferTypes(graph);
    FAIL() << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.message();
    EXPECT_NE(error.message().find(what), std::string::npos) << error.message();
    EXPECT_FALSE(error.context().node.empty());
  }
}

TEST(InferTypes, RefusesContradictions) {
  ExpectContradiction(
      "graph \"\" opset 13 input %x: float32[2] %y: float32[3] = Relu(%x) output %y",
      ErrorCode::kShapeMismatch, "declared as float32[3]");
  ExpectContradiction(
      "graph \"\" opset 13 input %x: float32[2] %y: float32[2, 1] = Relu(%x) output %y",
      ErrorCode::kShapeMismatch, "float32[2, 1]");
  ExpectContradiction("graph \"\" opset 13 input %x: float32[2] %y: int8[2] = Relu(%x) output %y",
                      ErrorCode::kTypeMismatch, "int8");
  ExpectContradiction("graph \"\" opset 13 input %x: float32[2] %y = Nope(%x) output %y",
                      ErrorCode::kUnsupported, "Nope");
}

/// The value of an inlined branch has no shape until types are inferred again.
TEST(Runner, NormalizationsOfInlinedBranches) {
  Graph graph = ParseGraph(R"(graph "inlined" opset 17
    input %x: float32[2, 6]
    const %yes: bool[] = {1}
    const %two: float32[] = {2}
    const %least: float32[] = {1e-5}
    %v: float32[2, 6] = If(%yes, %x, %x) {then_branch = { graph "" opset 17
    capture %outer: float32[2, 6]
    const %c: float32[] = {0.5}
    %y = Sub(%outer, %c)
    output %y
    }, else_branch = { graph "" opset 17
    capture %outer: float32[2, 6]
    %y = Neg(%outer)
    output %y
    }}
    %square = Pow(%v, %two)
    %mean = ReduceMean(%square) {axes = [-1]}
    %sum = Add(%mean, %least)
    %root = Sqrt(%sum)
    %normal = Div(%v, %root)
    output %normal)");
  RunPasses(graph, {});
  int normalizations = 0;
  for (const auto& node : graph.nodes()) {
    normalizations += node->Is("SimplifiedLayerNormalization") || node->Is("RMSNormalization");
  }
  EXPECT_EQ(normalizations, 1);
}

}  // namespace
}  // namespace requant

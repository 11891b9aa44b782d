// The steps that plans make of the groups recorded by FuseOps.
#include <gtest/gtest.h>

#include "base/str_cat.h"
#include "ir/text.h"
#include "session/session.h"

namespace requant {
namespace {

/// The operators of a plan's steps.
std::vector<std::string> StepsOf(const Session& session) {
  std::vector<std::string> out;
  for (const auto& step : session.plan()->steps) out.push_back(step->op);
  return out;
}

TEST(Fusion, AStepTakesWhatItsKernelCan) {
  const Graph graph(ParseGraph(R"(graph "" opset 13
    input %x: float32[1, 2, 5, 5]
    const %w: float32[2, 2, 1, 1] = {1.0, 2.0, 3.0, 4.0}
    %a = Conv(%x, %w) "conv"
    %b = Add(%a, %x) "add"
    %c = Relu(%b) "relu"
    %d = Mul(%c, %x) "mul"
    %e = Relu(%d) "after mul"
    %y = Tanh(%e) "tanh"
    output %y)"));
  Session session(graph, {});
  ASSERT_TRUE(session.Prepare());
  EXPECT_EQ(StepsOf(session), (std::vector<std::string>{"ToChannelsLast", "Conv+Add+Relu",
                                                        "Mul+Relu", "Tanh", "ToChannelsFirst"}));
  // The plan's graph records which groups were used.
  std::vector<std::string> groups;
  for (const auto& node : session.plan()->graph->nodes()) {
    groups.push_back(StrCat(node->name, ":", node->group));
  }
  EXPECT_EQ(groups, (std::vector<std::string>{"conv:conv", "add:conv", "relu:conv", "mul:mul",
                                              "after mul:mul", "tanh:"}));
}

TEST(Fusion, BytesGoThroughOneTable) {
  const Graph graph(ParseGraph(R"(graph "" opset 13, com.microsoft 1
    input %x: uint8[256]
    const %s: float32[] = {0.05}
    const %t: float32[] = {0.004}
    const %z: uint8[] = {130}
    const %o: uint8[] = {0}
    const %low: uint8[] = {17}
    %a = com.microsoft::QLinearSigmoid(%x, %s, %z, %t, %o) "sigmoid"
    %b = Clip(%a, %low) "clip"
    %c = com.microsoft::QLinearLeakyRelu(%b, %t, %z, %t, %z) "leaky"
    output %c)"));
  TensorMap feeds = {{"x", Tensor(DType::kUint8, {256})}};
  for (int i = 0; i < 256; ++i) feeds["x"].data<uint8_t>()[i] = static_cast<uint8_t>(i);
  Session session(graph, {});
  const std::vector<Tensor> results = session.Run(feeds);
  EXPECT_EQ(StepsOf(session), (std::vector<std::string>{"QLinearSigmoid+Clip+QLinearLeakyRelu"}));
  SessionOptions options;
  options.plan.fuse = false;
  Session apart(graph, options);
  EXPECT_TRUE(apart.Run(feeds)[0].SameBits(results[0]));
  EXPECT_EQ(apart.plan()->steps.size(), 3U);
}

TEST(Fusion, AProductReadsATransposedOperand) {
  const auto run = [](const char* more) {
    const Graph graph(ParseGraph(StrCat(R"(graph "" opset 13
      input %q: float32[2, 3, 5, 8]
      input %k: float32[2, 3, 7, 8]
      %t = Transpose(%k) {perm = [0, 1, 3, 2]}
      %y = MatMul(%q, %t)
      output %y
      )",
                                        more)));
    TensorMap feeds = {{"q", Tensor(DType::kFloat32, {2, 3, 5, 8})},
                       {"k", Tensor(DType::kFloat32, {2, 3, 7, 8})}};
    for (auto& [name, tensor] : feeds) {
      for (int64_t i = 0; i < tensor.count(); ++i) {
        tensor.data<float>()[i] = static_cast<float>(i * 7 % 11 - 5);
      }
    }
    Session session(graph, {});
    EXPECT_TRUE(session.Run(feeds)[0].SameBits(Interpret(graph, feeds)[0]));
    return StepsOf(session);
  };
  EXPECT_EQ(run(""), (std::vector<std::string>{"Transpose+MatMul"}));
  EXPECT_EQ(run("output %t"), (std::vector<std::string>{"Transpose", "MatMul"}));
}

}  // namespace
}  // namespace requant

// Bodies of control flow are prepared like every graph: optimized, and computed in integers where
// they contain Q/DQ pairs.
#include <gtest/gtest.h>

#include "api/requant.h"

namespace requant {
namespace {

constexpr const char* kText = R"(graph "" opset 13
input %c: bool[]
input %x: float32[N, 2, 4, 4]
const %s: float32[] = {0.05}
const %z: uint8[] = {128}
const %w: int8[3, 2, 1, 1] = {10, -20, 30, 40, -50, 60}
const %ws: float32[] = {0.02}
const %wz: int8[] = {0}
%shared = Relu(%x) "around"
%y = If(%c, %shared, %s, %z, %w, %ws, %wz, %shared) {then_branch = { graph "" opset 13
capture %a: float32[1, 2, 4, 4]
capture %s: float32[]
capture %z: uint8[]
capture %w: int8[3, 2, 1, 1]
capture %ws: float32[]
capture %wz: int8[]
%q = QuantizeLinear(%a, %s, %z)
%f = DequantizeLinear(%q, %s, %z)
%v = DequantizeLinear(%w, %ws, %wz)
%p = Conv(%f, %v) "inside"
%r = QuantizeLinear(%p, %s, %z)
%out = DequantizeLinear(%r, %s, %z)
output %out
}, else_branch = { graph "" opset 13
capture %a: float32[1, 2, 4, 4]
%t = Transpose(%a) {perm = [0, 2, 3, 1]}
%u = Transpose(%t) {perm = [0, 3, 1, 2]}
%out = Concat(%u, %u) {axis = 1}
output %out
}} "branch"
output %y
)";

TEST(PrepareForRun, Bodies) {
  const Graph graph = ParseGraph(kText);
  const PreparedModel ready = PrepareForRun(graph);
  const Node* branch = ready.graph().FindNode("branch");
  ASSERT_NE(branch, nullptr);
  const auto operators = [branch](const char* name) {
    std::vector<std::string> list;
    for (const auto& node : branch->attributes.GraphValue(name)->nodes()) {
      list.push_back(node->op_type);
    }
    return list;
  };
  EXPECT_EQ(operators("then_branch"),
            (std::vector<std::string>{"QuantizeLinear", "QLinearConv", "DequantizeLinear"}));
  EXPECT_EQ(operators("else_branch"), std::vector<std::string>{"Concat"});
  SessionOptions options;
  options.plan.requantize = RequantizeMode::kFloat;
  Session session(ready.Clone(), options);
  // A batch size other than the one that the bodies declare.
  Tensor x(DType::kFloat32, {3, 2, 4, 4});
  for (int64_t i = 0; i < x.count(); ++i)
    x.data<float>()[i] = static_cast<float>(i % 23) * 0.25F - 2;
  for (const bool taken : {true, false}) {
    const TensorMap feeds = {{"c", Tensor::Scalar(taken)}, {"x", x}};
    const std::vector<Tensor> wanted = Interpret(graph, feeds);
    const std::vector<Tensor> got = session.Run(feeds);
    ASSERT_EQ(got[0].shape(), wanted[0].shape());
    EXPECT_TRUE(got[0].SameBits(wanted[0])) << taken;
  }
}

}  // namespace
}  // namespace requant

#include "ir/op_id.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/graph.h"
#include "ir/verify.h"

namespace requant {
namespace {

TEST(OpId, FindsEveryRowByItsNameAndDomain) {
  for (size_t i = 1; i < static_cast<size_t>(Op::kCount); ++i) {
    const Op op = static_cast<Op>(i);
    EXPECT_EQ(OpId(OpName(op), OpDomain(op)), op) << OpName(op);
    EXPECT_EQ(OpId(OpName(op), "another.domain"), Op::kOther) << OpName(op);
  }
  EXPECT_EQ(OpId("Con", ""), Op::kOther);
  EXPECT_EQ(OpId("", ""), Op::kOther);
  EXPECT_EQ(OpId("Zzz", ""), Op::kOther);
}

TEST(OpId, NodesKeepIt) {
  Graph graph;
  Value* x = graph.AddValue("x", {DType::kFloat32, SymbolicShape{2}});
  graph.AddInput(x);
  graph.AddOutput(graph.AddOp("Relu", "", {x}, "y", {DType::kFloat32, SymbolicShape{2}}));
  Node& node = *graph.nodes()[0];
  EXPECT_TRUE(node.Is(Op::kRelu));
  EXPECT_TRUE(graph.Clone().nodes()[0]->Is(Op::kRelu));
  node.Retype(Op::kLut);
  EXPECT_EQ(node.op_type, "Lut");
  EXPECT_EQ(node.domain, kRequantDomain);
  node.Retype("Relu", kMicrosoftDomain);
  EXPECT_TRUE(node.Is(Op::kOther));
  VerifyGraph(graph);
  node.op_type = "Abs";
  node.domain = "";
  node.op = Op::kRelu;
  EXPECT_THROW(VerifyGraph(graph), Error);
}

}  // namespace
}  // namespace requant

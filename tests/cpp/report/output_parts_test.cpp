#include "report/output_parts.h"

#include <gtest/gtest.h>

#include "ir/text.h"
#include "passes/shape/infer_type.h"

namespace requant {
namespace {

TEST(OutputParts, OperandsOfTheConcatThatMakesAnOutput) {
  Graph graph = ParseGraph(R"(graph "parts" opset 13
    input %x: float32[2, 3, 4]
    input %y: float32[2, 1, 4]
    %a = Relu(%x) "a"
    %b = Neg(%y) "b"
    %inner = Concat(%b, %y) {axis = 1} "inner"
    %c = Concat(%a, %inner) {axis = -2} "c"
    %t = Transpose(%c) {perm = [2, 0, 1]} "t"
    %i = Identity(%t) "i"
    %other = Concat(%a, %a) {axis = 2} "other"
    output %c
    output %i
    const %shape: int64[3] = {4, 2, 5}
    %divided = Reshape(%t, %shape) "divided"
    const %flat: int64[1] = {40}
    %lost = Reshape(%c, %flat) "lost"
    output %other
    output %a
    output %divided
    output %lost)");
  InferTypes(graph);
  const OutputParts plain = FindOutputParts(*graph.outputs()[0]);
  ASSERT_EQ(plain.parts.size(), 3u);
  EXPECT_EQ(plain.axis, 1);
  EXPECT_EQ(plain.parts[0].name, "a");
  EXPECT_EQ(plain.parts[1].name, "b");
  EXPECT_EQ(plain.parts[2].name, "y");
  const OutputParts turned = FindOutputParts(*graph.outputs()[1]);
  ASSERT_EQ(turned.parts.size(), 3u);
  EXPECT_EQ(turned.axis, 2);
  EXPECT_EQ(FindOutputParts(*graph.outputs()[2]).axis, 2);
  EXPECT_TRUE(FindOutputParts(*graph.outputs()[3]).parts.empty());
  EXPECT_EQ(FindOutputParts(*graph.outputs()[4]).axis, 2);
  EXPECT_TRUE(FindOutputParts(*graph.outputs()[5]).parts.empty());
}

TEST(OutputParts, Elements) {
  OutputParts parts{1, {{"a", 1}, {"b", -1}}};
  const std::vector<float> values = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  EXPECT_EQ(PartOf(values, {2, 3, 2}, parts, 0), (std::vector<float>{0, 1, 6, 7}));
  EXPECT_EQ(PartOf(values, {2, 3, 2}, parts, 1), (std::vector<float>{2, 3, 4, 5, 8, 9, 10, 11}));
  // The sizes do not match the tensor.
  parts.parts = {{"a", 1}, {"b", 1}};
  EXPECT_TRUE(PartOf(values, {2, 3, 2}, parts, 0).empty());
  parts.parts = {{"a", -1}, {"b", -1}};
  EXPECT_TRUE(PartOf(values, {2, 3, 2}, parts, 1).empty());
  parts.parts = {{"a", 4}, {"b", -1}};
  EXPECT_TRUE(PartOf(values, {2, 3, 2}, parts, 1).empty());
}

}  // namespace
}  // namespace requant

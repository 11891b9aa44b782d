#include "ir/fix_dimensions.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"

namespace requant {
namespace {

constexpr const char* kGraph = R"(graph "g" opset 13
input %x: float32[batch, length, 4]
input %m: int64[batch, past_length]
%a = Relu(%x) "first"
output %a)";

TEST(FixDimensions, SymbolsGetTheirSizesEverywhere) {
  Graph graph = ParseGraph(kGraph);
  FixDimensions(graph, {{"batch", 2}, {"length", 0}, {"unknown", 7}});
  EXPECT_EQ(TypeToString(graph.FindValue("x")->type), "float32[2, 0, 4]");
  // A name that only contains a symbol is another symbol.
  const SymbolicShape& mask = *graph.FindValue("m")->type.shape;
  EXPECT_EQ(mask[0].value, 2);
  EXPECT_FALSE(mask[1].known());
  for (const auto& node : graph.nodes()) EXPECT_FALSE(node->typed);
}

TEST(FixDimensions, RefusesNegativeSizes) {
  Graph graph = ParseGraph(kGraph);
  try {
    FixDimensions(graph, {{"batch", -1}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
    EXPECT_NE(std::string(error.what()).find("batch"), std::string::npos);
  }
  EXPECT_FALSE(graph.FindValue("x")->type.shape->front().known());
}

}  // namespace
}  // namespace requant

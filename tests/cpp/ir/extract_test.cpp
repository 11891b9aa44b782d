#include "ir/extract.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace requant {
namespace {

constexpr const char* kGraph = R"(graph "g" opset 13
input %x: float32[1, 4]
input %y: float32[1, 4]
const %w: float32[4] = {1, 2, 3, 4}
%a = Relu(%x) "first"
%b = Mul(%a, %w) "scale"
%c = Add(%b, %a) "sum"
%d, %e = Split(%c) {axis = 1} "halves"
%f = Add(%y, %b) "other"
output %d
output %e
output %f)";

std::string Names(const std::vector<Value*>& values) {
  std::string out;
  for (const Value* value : values) out += (out.empty() ? "" : " ") + value->name;
  return out;
}

std::string Ops(const Graph& graph) {
  std::string out;
  for (const auto& node : graph.nodes()) out += (out.empty() ? "" : " ") + node->name;
  return out;
}

TEST(ExtractBetween, ValuesAndNodes) {
  const Graph graph = ParseGraph(kGraph);
  const Graph block = ExtractBetween(graph, {"a"}, {"c", "b"});
  VerifyGraph(block);
  EXPECT_EQ(Ops(block), "scale sum");
  EXPECT_EQ(Names(block.inputs()), "a");
  EXPECT_EQ(Names(block.outputs()), "c b");
  const Graph named = ExtractBetween(graph, {"sum"}, {"halves"});
  VerifyGraph(named);
  EXPECT_EQ(Ops(named), "sum halves");
  EXPECT_EQ(Names(named.inputs()), "b a");  // as the node reads them
  EXPECT_EQ(Names(named.outputs()), "d e");
  EXPECT_EQ(Names(ExtractBetween(graph, {"a", "b"}, {"c"}).inputs()), "a b");
}

TEST(ExtractBetween, AllInputsThatAreNeeded) {
  const Graph graph = ParseGraph(kGraph);
  const Graph start = ExtractBetween(graph, {}, {"b"});
  EXPECT_EQ(Ops(start), "first scale");
  EXPECT_EQ(Names(start.inputs()), "x");
  const Graph through = ExtractBetween(graph, {"x"}, {"x", "w"});
  VerifyGraph(through);
  EXPECT_EQ(Names(through.inputs()), "x");
  EXPECT_EQ(Names(through.outputs()), "x w");
}

TEST(ExtractBetween, SaysWhatCannotBe) {
  const Graph graph = ParseGraph(kGraph);
  const auto refused = [&](const std::vector<std::string>& from, const std::vector<std::string>& to,
                           const std::string& value) {
    try {
      ExtractBetween(graph, from, to);
      ADD_FAILURE() << value;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      EXPECT_EQ(error.context().value, value);
    }
  };
  refused({"z"}, {"c"}, "z");
  refused({"a"}, {"nothing"}, "nothing");
  refused({"a"}, {}, "to");
  refused({"a"}, {"f"}, "y");       // nothing cuts y off
  refused({"x", "y"}, {"c"}, "y");  // no output needs it
  refused({"c", "d"}, {"e"}, "d");  // the operator of e computes it
  refused({"a", "b"}, {"f"}, "y");
}

}  // namespace
}  // namespace requant

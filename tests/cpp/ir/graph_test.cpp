// The graph's bookkeeping: names, positions, order, copies, and the types that have to be inferred
// again.
#include "ir/graph.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "base/error.h"
#include "ir/name_index.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace requant {
namespace {

TEST(NameIndex, DoesWhatAMapDoes) {
  std::mt19937 random(5);
  std::map<std::string, int*> expected;  // its keys stay valid
  std::vector<int> items(4000);
  NameIndex index;
  EXPECT_EQ(index.Find("nothing"), nullptr);
  index.Erase("nothing");
  for (int step = 0; step < 40000; ++step) {
    const std::string name = "v" + std::to_string(random() % 1500);
    const auto found = expected.find(name);
    EXPECT_EQ(index.Find(name), found == expected.end() ? nullptr : found->second);
    if (found != expected.end()) {
      index.Erase(name);
      expected.erase(found);
    } else if (random() % 3 != 0) {
      int* item = &items[random() % items.size()];
      index.Insert(expected.emplace(name, item).first->first, item);
    }
    if (step == 20000) index.Reserve(5000);
  }
  for (const auto& [name, item] : expected) EXPECT_EQ(index.Find(name), item);
}

TEST(Graph, FindsByNameWhateverHappens) {
  std::mt19937 random(6);
  Graph graph;
  graph.opsets[""] = 13;
  Value* x = graph.AddValue("x", {DType::kFloat32, SymbolicShape{2}});
  graph.AddInput(x);
  std::vector<Value*> ends = {x};
  for (int step = 0; step < 2000; ++step) {
    Value* from = ends[random() % ends.size()];
    if (step % 5 == 4 && from != x && from->consumers.empty()) {
      Node* node = from->producer;
      std::erase(ends, from);
      graph.EraseNode(node);
      continue;
    }
    if (step % 7 == 6 && from != x) graph.RenameValue(from, "renamed");
    ends.push_back(graph.AddOp("Relu", "", {from}, "r", from->type, {}, "relu"));
    if (step % 97 == 0) graph.SortTopologically();
  }
  graph.AddOutput(ends.back());
  VerifyGraph(graph);
  for (const auto& node : graph.nodes()) EXPECT_EQ(graph.FindNode(node->name), node.get());
  const Graph copy = graph.Clone();
  VerifyGraph(copy);
  EXPECT_EQ(PrintGraph(copy), PrintGraph(graph));
  for (const auto& node : copy.nodes()) EXPECT_EQ(copy.FindNode(node->name), node.get());
}

TEST(Graph, SortsStably) {
  Graph graph = ParseGraph(R"(graph "" opset 13
    input %x: float32[2]
    %a = Relu(%x) "a"
    %b = Neg(%x) "b"
    %c = Add(%a, %b) "c"
    output %c)");
  Value* late = graph.AddOp("Abs", "", {graph.FindValue("x")}, "late", {}, {}, "late");
  graph.SetInput(graph.FindNode("b"), 0, late);
  graph.SortTopologically();
  std::string order;
  for (const auto& node : graph.nodes()) order += node->name + " ";
  EXPECT_EQ(order, "a late b c ");
  graph.SetInput(graph.FindNode("late"), 0, graph.FindValue("c"));
  EXPECT_THROW(graph.SortTopologically(), Error);
}

TEST(Graph, KnowsWhichTypesMayHaveChanged) {
  Graph graph = ParseGraph(R"(graph "" opset 13
    input %x: float32[2]
    const %k: float32[] = {1.0}
    %a = Relu(%x) "a"
    %b = Add(%a, %k) "b"
    %c = Neg(%b) "c"
    output %c)");
  const auto untyped = [&graph] {
    std::string out;
    for (const auto& node : graph.nodes()) {
      if (!node->typed) out += node->name;
      node->typed = true;
    }
    return out;
  };
  EXPECT_EQ(untyped(), "abc");
  EXPECT_EQ(untyped(), "");
  graph.SetInput(graph.FindNode("b"), 1, graph.FindValue("x"));
  EXPECT_EQ(untyped(), "b");
  graph.ReplaceAllUses(graph.FindValue("a"), graph.FindValue("x"));
  EXPECT_EQ(untyped(), "b");
  graph.TypeChanged(graph.FindValue("b"));
  EXPECT_EQ(untyped(), "c");
  graph.MakeConstant(graph.FindValue("b"), Tensor::Vector<float>({1, 2}));
  EXPECT_EQ(untyped(), "c");
  graph.FindNode("c")->typed = false;
  EXPECT_FALSE(graph.Clone().FindNode("c")->typed);
}

}  // namespace
}  // namespace requant

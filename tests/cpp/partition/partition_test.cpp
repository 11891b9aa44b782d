#include "partition/partition.h"

#include <gtest/gtest.h>

#include <set>

#include "base/error.h"
#include "ir/text.h"

namespace requant {
namespace {

Backend Taking(const Graph& graph, const std::set<std::string>& ops) {
  Backend out;
  for (const auto& node : graph.nodes()) out.takes.push_back(ops.contains(node->op_type) ? 1 : 0);
  return out;
}

/// All chains of these types, in which only the next node reads each result.
std::vector<Composite> Chains(const Graph& graph, const std::vector<std::string>& ops,
                              int pattern = 0) {
  std::vector<Composite> found;
  graph.Renumber();
  for (const auto& first : graph.nodes()) {
    Composite chain{pattern, {}};
    const Node* node = first.get();
    for (const std::string& op : ops) {
      if (node == nullptr || node->op_type != op) break;
      chain.nodes.push_back(node->position);
      node = graph.SoleConsumer(node->output());
    }
    if (chain.nodes.size() == ops.size()) found.push_back(chain);
  }
  return found;
}

Backend WithPatterns(const Graph& graph, const std::vector<std::vector<std::string>>& patterns) {
  Backend out = Taking(graph, {});
  for (size_t i = 0; i < patterns.size(); ++i) {
    for (Composite& chain : Chains(graph, patterns[i], static_cast<int>(i))) {
      out.composites.push_back(std::move(chain));
    }
  }
  return out;
}

/// The parts in order as text, with the number of their backend: "Conv Relu | Softmax@0".
std::string Text(const std::vector<Part>& parts) {
  std::string out;
  for (const Part& part : parts) {
    if (!out.empty()) out += " | ";
    for (const auto& node : part.graph.nodes()) {
      if (node != part.graph.nodes()[0]) out += ' ';
      out += node->op_type;
    }
    if (part.backend != kHost) out += '@' + std::to_string(part.backend);
  }
  return out;
}

constexpr const char* kChain = R"(graph "g" opset 13
input %x: float32[1, 4]
%a = Relu(%x)
%b = Exp(%a)
%c = Relu(%b)
%d = Abs(%c)
output %d)";

/// A graph with two paths from a to d, one of them through an operator that the backend does not
/// take.
constexpr const char* kDiamond = R"(graph "g" opset 13
input %x: float32[1, 4]
%a = Relu(%x)
%b = Exp(%a)
%c = Relu(%a)
%d = Add(%b, %c)
output %d)";

TEST(Partition, JoinsNeighboursOfOneBackend) {
  const Graph graph = ParseGraph(kChain);
  EXPECT_EQ(Text(PartitionGraph(graph, {})), "Relu Exp Relu Abs");
  EXPECT_EQ(Text(PartitionGraph(graph, {Taking(graph, {"Relu", "Exp"})})), "Relu Exp Relu@0 | Abs");
  EXPECT_EQ(Text(PartitionGraph(graph, {Taking(graph, {"Exp"})})), "Relu | Exp@0 | Relu Abs");
}

TEST(Partition, WhatLiesBetweenKeepsPartsApart) {
  const Graph graph = ParseGraph(kDiamond);
  // A part of Relu, Relu and Add would need Exp, which needs the first Relu.
  EXPECT_EQ(Text(PartitionGraph(graph, {Taking(graph, {"Relu", "Add"})})),
            "Relu Relu@0 | Exp | Add@0");
  EXPECT_EQ(Text(PartitionGraph(graph, {Taking(graph, {"Add"})})), "Relu Exp Relu | Add@0");
  EXPECT_EQ(Text(PartitionGraph(graph, {Taking(graph, {"Relu", "Add", "Exp"})})),
            "Relu Exp Relu Add@0");
}

TEST(Partition, ThoseInFrontComeFirst) {
  const Graph graph = ParseGraph(kChain);
  const Backend first = Taking(graph, {"Exp"}), second = Taking(graph, {"Exp", "Relu"});
  EXPECT_EQ(Text(PartitionGraph(graph, {first, second})), "Relu@1 | Exp@0 | Relu@1 | Abs");
  EXPECT_EQ(Text(PartitionGraph(graph, {second, first})), "Relu Exp Relu@0 | Abs");
}

TEST(Partition, PatternsAreTakenWhole) {
  const Graph graph = ParseGraph(kChain);
  EXPECT_EQ(Text(PartitionGraph(graph, {WithPatterns(graph, {{"Exp", "Relu"}})})),
            "Relu | Exp Relu@0 | Abs");
  EXPECT_EQ(Text(PartitionGraph(graph, {WithPatterns(graph, {{"Exp", "Abs"}})})),
            "Relu Exp Relu Abs");
  EXPECT_EQ(Text(PartitionGraph(graph, {WithPatterns(graph, {{"Relu", "Exp", "Relu"}, {"Relu"}})})),
            "Relu Exp Relu@0 | Abs");
  // a has two readers.
  const Graph diamond = ParseGraph(kDiamond);
  EXPECT_EQ(Text(PartitionGraph(diamond, {WithPatterns(diamond, {{"Relu", "Exp"}})})),
            "Relu Exp Relu Add");
  EXPECT_EQ(Text(PartitionGraph(diamond, {WithPatterns(diamond, {{"Exp", "Add"}})})),
            "Relu Relu | Exp Add@0");
}

TEST(Partition, PartsSayWhichCompositesTheyHave) {
  const Graph graph = ParseGraph(kChain);
  Backend backend = WithPatterns(graph, {{"Exp", "Relu"}, {"Abs"}});
  backend.takes[0] = 1;
  std::vector<Part> parts = PartitionGraph(graph, {backend});
  ASSERT_EQ(Text(parts), "Relu Exp Relu Abs@0");
  ASSERT_EQ(parts[0].composites.size(), 2u);
  EXPECT_EQ(parts[0].composites[0].pattern, 0);
  EXPECT_EQ(parts[0].composites[0].nodes, (std::vector<size_t>{1, 2}));
  EXPECT_EQ(parts[0].composites[1].pattern, 1);
  EXPECT_EQ(parts[0].composites[1].nodes, std::vector<size_t>{3});
  backend.join = false;
  parts = PartitionGraph(graph, {backend});
  ASSERT_EQ(Text(parts), "Relu@0 | Exp Relu@0 | Abs@0");
  EXPECT_EQ(parts[0].composites.size(), 0u);
  EXPECT_EQ(parts[1].composites[0].nodes, (std::vector<size_t>{0, 1}));
}

TEST(Partition, RefusesCompositesThatAreNone) {
  const Graph graph = ParseGraph(kDiamond);
  // Relu of x, which Relu of a reads as well; no nodes; a node twice; another order; no such node.
  const std::vector<std::vector<size_t>> wrong = {{0, 1}, {}, {1, 1}, {3, 1}, {4}, {3, 3, 4}};
  for (const std::vector<size_t>& nodes : wrong) {
    Backend backend = Taking(graph, {});
    backend.composites = {{0, nodes}};
    EXPECT_THROW(PartitionGraph(graph, {backend}), Error);
  }
  Backend backend = Taking(graph, {});
  backend.composites = {{0, {0, 1, 2, 3}}};
  EXPECT_EQ(Text(PartitionGraph(graph, {backend})), "Relu Exp Relu Add@0");
}

TEST(Partition, LimitsOfSizeAndCost) {
  const Graph graph = ParseGraph(R"(graph "g" opset 13
input %x: float32[2, 3]
const %w: float32[3, 4] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}
const %v: float32[4, 1] = {1, 2, 3, 4}
%a = MatMul(%x, %w)
%b = Exp(%a)
%c = MatMul(%b, %v)
%d = Relu(%c)
output %d)");
  graph.FindValue("a")->type = {DType::kFloat32, ToSymbolic({2, 4})};
  graph.FindValue("b")->type = {DType::kFloat32, ToSymbolic({2, 4})};
  graph.FindValue("c")->type = {DType::kFloat32, SymbolicShape{Dim("N"), Dim(1)}};
  EXPECT_EQ(MacsOf(*graph.nodes()[0]), 24);
  EXPECT_EQ(MacsOf(*graph.nodes()[2]), 4);  // an open dimension counts as 1
  EXPECT_EQ(MacsOf(*graph.nodes()[1]), 0);
  Backend backend = Taking(graph, {"MatMul", "Relu"});
  EXPECT_EQ(Text(PartitionGraph(graph, {backend})), "MatMul@0 | Exp | MatMul Relu@0");
  backend.min_macs = 9;
  const std::vector<Part> parts = PartitionGraph(graph, {backend});
  ASSERT_EQ(Text(parts), "MatMul@0 | Exp MatMul Relu");
  EXPECT_EQ(parts[0].macs, 24);
  EXPECT_EQ(parts[1].macs, 4);
  backend.min_macs = 25;
  EXPECT_EQ(Text(PartitionGraph(graph, {backend})), "MatMul Exp MatMul Relu");
  // Parts that are too small for one backend go to the next.
  backend.min_macs = 9;
  EXPECT_EQ(Text(PartitionGraph(graph, {backend, Taking(graph, {"MatMul"})})),
            "MatMul@0 | Exp | MatMul@1 | Relu");
  backend = Taking(graph, {"MatMul", "Exp", "Relu"});
  backend.max_operators = 2;
  EXPECT_EQ(Text(PartitionGraph(graph, {backend})), "MatMul Exp@0 | MatMul Relu@0");
  backend.composites = Chains(graph, {"MatMul", "Exp", "MatMul"});
  EXPECT_EQ(Text(PartitionGraph(graph, {backend})), "MatMul Exp@0 | MatMul Relu@0");
}

TEST(Partition, OutputsThatAreInputsOrConstants) {
  const Graph graph = ParseGraph(R"(graph "g" opset 13
input %x: float32[2]
const %w: float32[2] = {1, 2}
output %x
output %w)");
  const std::vector<Part> parts = PartitionGraph(graph, {});
  ASSERT_EQ(parts.size(), 1u);
  ASSERT_EQ(parts[0].graph.outputs().size(), 1u);
  EXPECT_EQ(parts[0].graph.outputs()[0]->name, "w");
}

}  // namespace
}  // namespace requant

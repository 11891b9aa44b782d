// The groups that FuseOps finds; tests/passes/fuse_ops_*.txt has a case for every rule.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/str_cat.h"
#include "ir/text.h"
#include "ops/op.h"
#include "passes/pass.h"
#include "passes/shape/infer_type.h"
#include "support/random_graphs/random_graph.h"

namespace requant {
namespace {

struct FusionGroup {
  std::string anchor;
  std::vector<const Node*> nodes;

  std::string Pattern() const {
    std::string out = anchor + ": ";
    for (const Node* node : nodes) out += (node == nodes[0] ? "" : "+") + node->op_type;
    return out;
  }
};

/// The groups that the pass records, in the order of their first node.
std::vector<FusionGroup> GroupsOf(Graph& graph) {
  PassContext context;
  FuseOps(graph, context);
  EXPECT_FALSE(FuseOps(graph, context));
  std::vector<FusionGroup> groups;
  for (const auto& node : graph.nodes()) {
    if (node->group.empty()) continue;
    auto found = std::find_if(groups.begin(), groups.end(), [&](const FusionGroup& group) {
      return group.anchor == node->group;
    });
    if (found == groups.end()) found = groups.insert(groups.end(), {node->group, {}});
    found->nodes.push_back(node.get());
  }
  return groups;
}

TEST(FuseOps, GivesASumToTheLayerThatRunsLast) {
  Graph graph = ParseGraph(R"(graph "" opset 13
    input %x: float32[1, 1, 4, 4]
    const %w: float32[1, 1, 1, 1] = {2.0}
    %a = Conv(%x, %w) "first"
    %b = Relu(%a) "act"
    %c = Conv(%b, %w) "second"
    %d = Conv(%x, %w) "shortcut"
    %e = Add(%c, %d) "add"
    %f = Relu(%e) "last"
    %g = Conv(%f, %w) "shared"
    %h = Relu(%g) "h"
    %i = Add(%g, %h) "i"
    %l = Conv(%i, %w) "seen"
    %m = Relu(%l) "m"
    output %m
    output %l)");
  std::vector<std::string> patterns;
  for (const FusionGroup& group : GroupsOf(graph)) patterns.push_back(group.Pattern());
  EXPECT_EQ(patterns, (std::vector<std::string>{"first: Conv+Relu", "shortcut: Conv+Add+Relu",
                                                "shared: Conv+Relu+Add"}));
}

TEST(FuseOps, KnowsIntegerOperators) {
  Graph graph = ParseGraph(R"(graph "" opset 13, com.microsoft 1
    input %x: uint8[1, 1, 4, 4]
    const %s: float32[] = {0.5}
    const %z: uint8[] = {3}
    const %w: uint8[1, 1, 1, 1] = {2}
    %a = QLinearConv(%x, %s, %z, %w, %s, %z, %s, %z)
    %b = com.microsoft::QLinearAdd(%x, %s, %z, %a, %s, %z, %s, %z)
    %y = Relu(%b)
    output %y)");
  const std::vector<FusionGroup> groups = GroupsOf(graph);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].Pattern(), "QLinearConv#0: QLinearConv+QLinearAdd+Relu");
}

/// Checks the properties of every group (see fuse_ops.h and the conditions of the pass).
void CheckGroup(const Graph& graph, const FusionGroup& group) {
  const std::set<const Node*> inside(group.nodes.begin(), group.nodes.end());
  std::set<const Node*> leaving;
  int layers = 0;
  for (const Node* node : group.nodes) {
    const FusionRule rule = OpOf(graph, *node).fusion;
    EXPECT_NE(rule, FusionRule::kOpaque) << node->name;
    layers += rule == FusionRule::kOutFusable ? 1 : 0;
    bool leaves = false;
    size_t readers = 0;
    for (const Value* output : node->outputs) {
      if (output == nullptr) continue;
      leaves = leaves || graph.IsOutput(output);
      readers += output->consumers.size();
      for (const Node* reader : output->consumers) leaves = leaves || !inside.contains(reader);
    }
    leaves = leaves || readers == 0;  // a result that nobody reads
    if (leaves) leaving.insert(node);
    EXPECT_TRUE(rule != FusionRule::kReduction || leaves)
        << node->name << " does not end the group";
  }
  EXPECT_LE(layers, 1);
  EXPECT_EQ(leaving.size(), 1U) << "a group has one way out";
  // No path between two members leaves the group.
  std::set<const Node*> behind;  // nodes outside that the group reaches
  for (const auto& node : graph.nodes()) {
    bool reached = false;
    for (const Value* input : node->inputs) {
      const Node* from = input ? input->producer : nullptr;
      reached = reached || behind.contains(from);
      if (!inside.contains(node.get())) reached = reached || inside.contains(from);
    }
    if (!reached) continue;
    EXPECT_FALSE(inside.contains(node.get())) << "the way to " << node->name << " leaves the group";
    behind.insert(node.get());
  }
}

TEST(FuseOps, AreRightInRandomGraphs) {
  size_t groups = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    Graph graph = GraphMaker(seed, false).Make().graph;
    InferTypes(graph);
    SCOPED_TRACE(StrCat("seed ", seed));
    std::set<const Node*> taken;
    for (const FusionGroup& group : GroupsOf(graph)) {
      ++groups;
      EXPECT_GE(group.nodes.size(), 2U);
      for (const Node* node : group.nodes) EXPECT_TRUE(taken.insert(node).second) << node->name;
      CheckGroup(graph, group);
    }
    if (HasFailure()) {
      FAIL() << PrintGraph(graph);
    }
  }
  EXPECT_GT(groups, 300U);
}

}  // namespace
}  // namespace requant

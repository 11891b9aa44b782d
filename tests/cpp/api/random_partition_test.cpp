// Random graphs divided among random backends: every node is in exactly one part, and the parts in
// order compute what the whole graph computes.
#include <gtest/gtest.h>

#include <map>

#include "api/requant.h"
#include "support/random_graphs/random_graph.h"

namespace requant {
namespace {

/// Runs the parts in order by the interpreter.
TensorMap RunParts(const std::vector<Part>& parts, TensorMap values) {
  for (const Part& part : parts) {
    TensorMap feeds;
    for (const Value* input : part.graph.inputs()) {
      if (!input->is_constant()) feeds[input->name] = values.at(input->name);
    }
    const std::vector<Tensor> outputs = Interpret(part.graph, feeds, {});
    for (size_t i = 0; i < outputs.size(); ++i) {
      values[part.graph.outputs()[i]->name] = outputs[i];
    }
  }
  return values;
}

/// Chains of one to three nodes, in which only the next node reads each result.
std::vector<Composite> RandomChains(const Graph& graph, Dice& dice) {
  std::vector<Composite> found;
  graph.Renumber();
  for (const auto& first : graph.nodes()) {
    if (dice.Chance(50)) continue;
    Composite chain{static_cast<int>(found.size()), {}};
    const Node* node = first.get();
    for (int64_t left = dice.In(1, 3); left > 0 && node != nullptr; --left) {
      chain.nodes.push_back(node->position);
      if (node->outputs.size() != 1) break;
      node = graph.SoleConsumer(node->output());
    }
    found.push_back(std::move(chain));
  }
  return found;
}

TEST(Partition, RandomGraphsComputeTheSame) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    RandomGraph made = GraphMaker(seed, false).Make();
    const Graph& graph = made.graph;
    Dice dice(seed + 77);
    std::vector<Backend> backends(static_cast<size_t>(dice.In(1, 3)));
    for (Backend& backend : backends) {
      for (size_t i = 0; i < graph.nodes().size(); ++i) backend.takes.push_back(dice.Chance(40));
      if (dice.Chance(30)) backend.max_operators = dice.In(1, 4);
      if (dice.Chance(30)) backend.min_macs = dice.In(1, 500);
      if (dice.Chance(50)) backend.composites = RandomChains(graph, dice);
      backend.join = !dice.Chance(20);
    }
    const std::vector<Part> parts = PartitionGraph(graph, backends);
    std::map<std::string, int> nodes;
    for (const Part& part : parts) {
      for (const auto& node : part.graph.nodes()) ++nodes[node->name];
      if (part.backend == kHost) continue;
      const Backend& backend = backends[static_cast<size_t>(part.backend)];
      EXPECT_GE(part.macs, backend.min_macs);
      if (backend.max_operators > 0) {
        EXPECT_LE(static_cast<int64_t>(part.graph.nodes().size()), backend.max_operators);
      }
      for (const Composite& composite : part.composites) {
        const Composite& given = backend.composites[static_cast<size_t>(composite.pattern)];
        ASSERT_EQ(composite.nodes.size(), given.nodes.size());
        for (size_t i = 0; i < given.nodes.size(); ++i) {
          EXPECT_EQ(part.graph.nodes()[composite.nodes[i]]->name,
                    graph.nodes()[given.nodes[i]]->name);
        }
        if (!backend.join) {
          EXPECT_EQ(part.graph.nodes().size(), given.nodes.size());
        }
      }
    }
    ASSERT_EQ(nodes.size(), graph.nodes().size());
    for (const auto& [name, count] : nodes) EXPECT_EQ(count, 1) << name;
    const std::vector<Tensor> expected = Interpret(graph, made.feeds, {});
    const TensorMap values = RunParts(parts, made.feeds);
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(values.at(graph.outputs()[i]->name).SameBits(expected[i]));
    }
    if (HasFailure()) FAIL() << PrintGraph(graph, {.max_constant_elements = 4});
  }
}

}  // namespace
}  // namespace requant

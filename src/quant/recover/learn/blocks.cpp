#include "quant/recover/learn/blocks.h"

#include <algorithm>
#include <set>

namespace requant {
namespace {

constexpr size_t kMostLayers = 6;

bool IsFloatValue(const Value* value) {
  return value && !value->is_constant() && value->type.dtype == DType::kFloat32;
}

/// A place behind a node where one value alone goes on.
struct Cut {
  bool possible = false;
  int64_t elements = 0;  // of that value, for dimensions of known size
};

int64_t ElementsOf(const Value* value) {
  int64_t count = 1;
  for (const Dim& dim : value->type.shape.value_or(SymbolicShape{})) {
    if (dim.value > 0) count *= dim.value;
  }
  return count;
}

/// The nodes that read each float value last.
std::map<const Value*, size_t> LastReaders(const std::vector<const Node*>& nodes) {
  std::map<const Value*, size_t> last;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value* input : nodes[i]->inputs) {
      if (IsFloatValue(input)) last[input] = i;
    }
  }
  return last;
}

/// Whether the node's layer computes a clamp that a later node shows. No cut separates the two.
bool AwaitsClamp(const Simulator& simulator, const Node& node) {
  const OperatorQuantization* op = simulator.record().Find(node.name);
  return op && !op->activation.empty();
}

/// The cuts behind all nodes.
std::vector<Cut> FindCuts(const Simulator& simulator, const std::map<const Value*, size_t>& last) {
  const Graph& graph = simulator.graph();
  std::set<const Value*> live(graph.inputs().begin(), graph.inputs().end());
  std::vector<Cut> cuts;
  for (const Node* node : simulator.nodes()) {
    for (const Value* output : node->outputs) {
      if (IsFloatValue(output) && (last.contains(output) || graph.IsOutput(output))) {
        live.insert(output);
      }
    }
    for (const Value* input : node->inputs) {
      const auto found = last.find(input);
      if (found != last.end() && found->second == cuts.size()) live.erase(input);
    }
    Cut cut{live.size() <= 1 && !AwaitsClamp(simulator, *node)};
    for (const Value* value : live) cut.elements += ElementsOf(value);
    cuts.push_back(cut);
  }
  return cuts;
}

/// Whether a cut behind one more layer leaves less than half of the elements of the cut behind node
/// `at`, as the last layer of a bottleneck does.
bool NarrowsSoon(Simulator& simulator, const std::vector<Cut>& cuts, size_t at) {
  size_t layers = 0;
  for (size_t i = at + 1; i < cuts.size(); ++i) {
    if (simulator.Layer(simulator.nodes()[i]) && ++layers > 1) return false;
    if (layers == 1 && cuts[i].possible && 2 * cuts[i].elements < cuts[at].elements) return true;
  }
  return false;
}

std::vector<Block> FindBlocks(Simulator& simulator, bool by_layer) {
  const std::vector<const Node*>& nodes = simulator.nodes();
  const Graph& graph = simulator.graph();
  const std::map<const Value*, size_t> last = LastReaders(nodes);
  const std::vector<Cut> cuts = FindCuts(simulator, last);
  std::vector<Block> blocks;
  Block current;
  const auto close = [&](size_t end) {
    current.end = end;
    if (current.end > current.begin) blocks.push_back(current);
    current = {};
    current.begin = end;
  };
  for (size_t i = 0; i < nodes.size(); ++i) {
    const Node& node = *nodes[i];
    const OperatorQuantization* op = simulator.record().Find(node.name);
    const bool data = IsFloatValue(node.output(0));
    const bool moves = op && (op->rule == QuantRule::kPassive || op->rule == QuantRule::kShape);
    if (data && !moves && !simulator.PassesGradients(node) && !current.layers.empty()) close(i);
    if (simulator.Layer(&node)) {
      if (by_layer && !current.layers.empty()) close(i);
      current.layers.push_back(&node);
    }
    if (current.layers.empty() || AwaitsClamp(simulator, node)) continue;
    const size_t layers = current.layers.size();
    const bool cut = cuts[i].possible && layers >= 2 &&
                     (layers >= kMostLayers || !NarrowsSoon(simulator, cuts, i));
    if ((by_layer && op && op->quantized) || cut || layers >= kMostLayers) close(i + 1);
  }
  close(nodes.size());
  for (Block& block : blocks) {
    for (size_t i = block.begin; i < block.end; ++i) {
      for (const Value* output : nodes[i]->outputs) {
        if (!IsFloatValue(output)) continue;
        const auto found = last.find(output);
        if (graph.IsOutput(output) || (found != last.end() && found->second >= block.end)) {
          block.outputs.push_back(output);
        }
      }
    }
  }
  return blocks;
}

}  // namespace

std::vector<Block> LayersAsBlocks(Simulator& simulator) { return FindBlocks(simulator, true); }
std::vector<Block> ResidualBlocks(Simulator& simulator) { return FindBlocks(simulator, false); }

}  // namespace requant

#include "quant/recover/learn/blocks.h"

#include <algorithm>
#include <set>

namespace requant {
namespace {

constexpr size_t kMostLayers = 6;

bool IsFloatValue(const Value* value) {
  return value && !value->is_constant() && value->type.dtype == DType::kFloat32;
}

std::vector<Block> FindBlocks(Simulator& simulator, bool by_layer) {
  const std::vector<const Node*>& nodes = simulator.nodes();
  const Graph& graph = simulator.graph();
  std::map<const Value*, size_t> last;
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const Value* input : nodes[i]->inputs) {
      if (IsFloatValue(input)) last[input] = i;
    }
  }
  std::vector<Block> blocks;
  Block current;
  std::set<const Value*> live;
  for (const Value* input : graph.inputs()) live.insert(input);
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
    for (const Value* output : node.outputs) {
      if (IsFloatValue(output) && (last.contains(output) || graph.IsOutput(output))) {
        live.insert(output);
      }
    }
    for (const Value* input : node.inputs) {
      const auto found = last.find(input);
      if (found != last.end() && found->second == i) live.erase(input);
    }
    if (current.layers.empty()) continue;
    // A cut never separates a layer from the clamp that it computes.
    const bool pending = op && !op->activation.empty();
    if (pending) continue;
    const bool cut = live.size() <= 1 && current.layers.size() >= 2;
    if ((by_layer && op && op->quantized) || cut || current.layers.size() >= kMostLayers) {
      close(i + 1);
    }
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

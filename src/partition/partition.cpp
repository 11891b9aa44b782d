#include "partition/partition.h"

#include <algorithm>

#include "ir/extract.h"

namespace requant {
namespace {

class Partitioner {
 public:
  Partitioner(const Graph& graph, const std::vector<Backend>& backends)
      : graph_(graph),
        backends_(backends),
        refused_(backends.size(), std::vector<uint8_t>(graph.nodes().size())) {
    graph.Renumber();
    for (const Backend& backend : backends) {
      most_.push_back(backend.join ? backend.max_operators : 1);
      std::vector<std::vector<const Node*>>& found = composites_.emplace_back();
      for (const Composite& composite : backend.composites) {
        found.push_back(NodesOf(graph, composite));
      }
    }
  }

  std::vector<Part> Run() {
    std::vector<Unit> regions;
    // The nodes of a part that is too small go to the next backend, which may make other parts
    // smaller.
    do {
      regions = MergeRegions(graph_, Annotate(), most_);
    } while (RefuseSmall(regions));
    std::vector<Part> parts;
    for (const Unit& region : regions) parts.push_back(MakePart(region));
    AddConstants(parts);
    return parts;
  }

 private:
  /// Every node as a unit, alone or in a composite, in the order of the units' last nodes. Only a
  /// composite itself reads its inner results, so everything it reads comes before its end.
  std::vector<Unit> Annotate() {
    taken_.assign(graph_.nodes().size(), nullptr);
    std::vector<uint8_t> given(graph_.nodes().size());
    std::vector<Unit> by_last(graph_.nodes().size());
    const auto give = [&](int backend, const std::vector<const Node*>& nodes) {
      for (const Node* node : nodes) given[node->position] = 1;
      by_last[nodes.back()->position] = {backend, nodes};
    };
    for (size_t b = 0; b < backends_.size(); ++b) {
      const auto is_free = [&](const Node* node) {
        return given[node->position] == 0 && refused_[b][node->position] == 0;
      };
      for (size_t i = 0; i < composites_[b].size(); ++i) {
        const std::vector<const Node*>& nodes = composites_[b][i];
        const auto most = static_cast<size_t>(backends_[b].max_operators);
        if (most != 0 && nodes.size() > most) continue;
        if (!std::all_of(nodes.begin(), nodes.end(), is_free)) continue;
        give(static_cast<int>(b), nodes);
        taken_[nodes.back()->position] = &backends_[b].composites[i];
      }
      for (const auto& node : graph_.nodes()) {
        const bool taken = backends_[b].takes[node->position] != 0;
        if (taken && is_free(node.get())) give(static_cast<int>(b), {node.get()});
      }
    }
    for (const auto& node : graph_.nodes()) {
      if (given[node->position] == 0) give(kHost, {node.get()});
    }
    std::vector<Unit> units;
    for (Unit& unit : by_last) {
      if (!unit.nodes.empty()) units.push_back(std::move(unit));
    }
    return units;
  }

  static int64_t MacsOfAll(const Unit& region) {
    int64_t sum = 0;
    for (const Node* node : region.nodes) {
      if (__builtin_add_overflow(sum, MacsOf(*node), &sum)) return INT64_MAX;
    }
    return sum;
  }

  bool RefuseSmall(const std::vector<Unit>& regions) {
    bool any = false;
    for (const Unit& region : regions) {
      if (region.backend == kHost) continue;
      const auto b = static_cast<size_t>(region.backend);
      if (MacsOfAll(region) >= backends_[b].min_macs) continue;
      for (const Node* node : region.nodes) refused_[b][node->position] = 1;
      any = true;
    }
    return any;
  }

  /// The values of a region that others read, or that the graph returns.
  std::vector<const Value*> OutputsOf(const Unit& region) const {
    const auto inside = [&region](const Node* node) {
      return std::find(region.nodes.begin(), region.nodes.end(), node) != region.nodes.end();
    };
    std::vector<const Value*> outputs;
    for (const Node* node : region.nodes) {
      for (const Value* value : node->outputs) {
        if (value == nullptr) continue;
        const bool read = std::any_of(value->consumers.begin(), value->consumers.end(),
                                      [&](const Node* reader) { return !inside(reader); });
        if (read || graph_.IsOutput(value)) outputs.push_back(value);
      }
    }
    return outputs;
  }

  Part MakePart(const Unit& region) const {
    Part part{region.backend, Extract(graph_, region.nodes, OutputsOf(region)), MacsOfAll(region)};
    std::vector<size_t> places(graph_.nodes().size());
    for (size_t i = 0; i < region.nodes.size(); ++i) places[region.nodes[i]->position] = i;
    for (const Node* node : region.nodes) {
      if (taken_[node->position] == nullptr) continue;
      Composite composite = *taken_[node->position];
      for (size_t& place : composite.nodes) place = places[place];
      part.composites.push_back(std::move(composite));
    }
    return part;
  }

  /// Adds outputs of the graph that are constants, which belong to no other part.
  void AddConstants(std::vector<Part>& parts) const {
    std::vector<const Value*> constants;
    for (const Value* output : graph_.outputs()) {
      if (output->is_constant()) constants.push_back(output);
    }
    if (!constants.empty()) parts.push_back({kHost, Extract(graph_, {}, constants)});
  }

  const Graph& graph_;
  const std::vector<Backend>& backends_;
  std::vector<std::vector<uint8_t>> refused_;  // indexed by backend and by the position of a node
  std::vector<int64_t> most_;
  std::vector<std::vector<std::vector<const Node*>>> composites_;  // by backend
  std::vector<const Composite*> taken_;  // by the position of the composite's last node
};

}  // namespace

std::vector<Part> PartitionGraph(const Graph& graph, const std::vector<Backend>& backends) {
  return Partitioner(graph, backends).Run();
}

}  // namespace requant

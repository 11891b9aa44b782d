// Merges units as TVM's MergeCompilerRegions does (src/relay/transforms/merge_compiler_regions.cc):
// adds operators one after another to regions that they read from, unless something outside a
// region would come between its parts, which would then wait for each other.
#include <algorithm>
#include <cstdint>

#include "partition/partition.h"

namespace requant {
namespace {

class Merger {
 public:
  Merger(const Graph& graph, const std::vector<Unit>& units, const std::vector<int64_t>& most)
      : graph_(graph), units_(units), most_(most), region_of_(graph.nodes().size(), units.size()) {}

  std::vector<Unit> Run() {
    for (size_t i = 0; i < units_.size(); ++i) AddUnit(i);
    JoinHosts();
    return Sorted();
  }

 private:
  struct Region {
    int backend;
    size_t size;                  // number of operators
    std::vector<uint8_t> before;  // the regions that it depends on, directly or indirectly
    bool alive = true;
  };

  bool HasRoom(const Region& a, const Region& b) const {
    if (a.backend == kHost) return true;
    const int64_t most = most_[static_cast<size_t>(a.backend)];
    return most == 0 || static_cast<int64_t>(a.size + b.size) <= most;
  }

  std::vector<size_t> SourcesOf(size_t unit) const {
    std::vector<size_t> sources;
    for (const Node* node : units_[unit].nodes) {
      for (const Value* value : node->inputs) {
        if (value == nullptr || value->producer == nullptr) continue;
        const size_t source = region_of_[value->producer->position];
        const bool known = std::find(sources.begin(), sources.end(), source) != sources.end();
        if (source != unit && !known) sources.push_back(source);
      }
    }
    return sources;
  }

  /// Makes a unit a region of its own, which then joins the regions it reads from.
  void AddUnit(size_t i) {
    const Unit& unit = units_[i];
    Region region{unit.backend, unit.nodes.size(), std::vector<uint8_t>(units_.size()), true};
    for (const Node* node : unit.nodes) region_of_[node->position] = i;
    const std::vector<size_t> sources = SourcesOf(i);
    for (const size_t source : sources) {
      region.before[source] = true;
      Or(region.before, regions_[source].before);
    }
    regions_.push_back(std::move(region));
    for (const size_t source : sources) {
      if (!regions_[source].alive) continue;  // it has been joined to another region
      const Region& other = regions_[source];
      if (other.backend != unit.backend || Between(source, i)) continue;
      if (HasRoom(other, regions_[i])) Join(source, i);
    }
  }

  static void Or(std::vector<uint8_t>& to, const std::vector<uint8_t>& from) {
    for (size_t i = 0; i < from.size(); ++i) to[i] |= from[i];
  }

  /// Whether a third region depends on `first` and `second` depends on it.
  bool Between(size_t first, size_t second) const {
    for (size_t i = 0; i < regions_.size(); ++i) {
      if (i == first || i == second || !regions_[i].alive) continue;
      if (regions_[i].before[first] && regions_[second].before[i]) return true;
    }
    return false;
  }

  /// Moves everything in `from` to `to`.
  void Join(size_t from, size_t to) {
    Region& target = regions_[to];
    Region& source = regions_[from];
    source.alive = false;
    for (size_t& region : region_of_) {
      if (region == from) region = to;
    }
    target.size += source.size;
    Or(target.before, source.before);
    target.before[from] = target.before[to] = false;
    for (Region& other : regions_) {
      if (!other.alive || &other == &target) continue;
      if (other.before[from]) other.before[to] = true;
      other.before[from] = false;
      if (other.before[to]) Or(other.before, target.before);
    }
  }

  /// Parts of the host that do not depend on each other are joined as well.
  void JoinHosts() {
    for (size_t i = 0; i < regions_.size(); ++i) {
      for (size_t j = 0; j < i; ++j) {
        if (!regions_[i].alive || !regions_[j].alive) continue;
        if (regions_[i].backend != kHost || regions_[j].backend != kHost) continue;
        if (!regions_[i].before[j] && !regions_[j].before[i]) Join(j, i);
      }
    }
  }

  std::vector<Unit> Sorted() {
    std::vector<Unit> out;
    for (size_t left = regions_.size(); left > 0;) {
      left = 0;
      for (size_t i = 0; i < regions_.size(); ++i) {
        if (!regions_[i].alive) continue;
        const bool waits = std::find(regions_[i].before.begin(), regions_[i].before.end(), 1) !=
                           regions_[i].before.end();
        if (waits) {
          ++left;
          continue;
        }
        out.push_back(NodesOf(i));
        regions_[i].alive = false;
        for (Region& other : regions_) other.before[i] = 0;
      }
    }
    return out;
  }

  Unit NodesOf(size_t region) const {
    Unit out{regions_[region].backend, {}};
    for (const auto& node : graph_.nodes()) {
      if (region_of_[node->position] == region) out.nodes.push_back(node.get());
    }
    return out;
  }

  const Graph& graph_;
  const std::vector<Unit>& units_;
  const std::vector<int64_t>& most_;
  std::vector<size_t> region_of_;  // indexed by the position of a node
  std::vector<Region> regions_;    // one for each unit so far
};

}  // namespace

std::vector<Unit> MergeRegions(const Graph& graph, const std::vector<Unit>& units,
                               const std::vector<int64_t>& most) {
  return Merger(graph, units, most).Run();
}

}  // namespace requant

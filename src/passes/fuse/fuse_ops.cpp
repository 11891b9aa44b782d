#include <algorithm>
#include <vector>

#include "ops/op.h"
#include "passes/pass.h"

namespace requant {
namespace {

/// Whether the node's result has the shape of the other's, as far as shapes are known.
bool SameShape(const Node& node, const Node& other) {
  if (!node.output() || !other.output()) return false;
  const auto& a = node.output()->type.shape;
  const auto& b = other.output()->type.shape;
  return !a || !b || *a == *b;
}

// Groups nodes, named by their positions. A node joins its immediate post-dominator, the first node
// that all paths from it reach, together with all nodes on these paths. Nothing that they compute
// is then read outside the group, and no path leaves a group and returns:
//
//       a            b post-dominates a:
//     /   \          a joins b with c and d
//    c     d
//     \   /
//       b
//
// FuseOps in TVM has the same idea (T. Chen et al., OSDI 2018, section 3).
class Grouper {
 public:
  explicit Grouper(const Graph& graph) : graph_(graph), states_(graph.nodes().size()) {
    graph.Renumber();
    for (int i = Count(); i-- > 0;) {
      State& state = At(i);
      const OpDef* op = FindOp(NodeAt(i));
      if (op) state.rule = op->fusion;
      state.leader = i;
      if (state.rule == FusionRule::kOutFusable) state.layer = i;
      state.closed = state.rule == FusionRule::kReduction;
      FindDominator(i);
    }
  }

  void Run() {
    using enum FusionRule;
    // Layers come first, the last one before the others: a sum of two layers joins the one that
    // runs last.
    for (int i = Count(); i-- > 0;) {
      if (At(i).rule != kOutFusable) continue;
      for (int at = i; Join(at, kBroadcast, kBroadcast, true);) at = At(at).dominator;
    }
    // Then functions join functions and the reduction that they end in.
    for (int i = 0; i < Count(); ++i) {
      if (At(i).rule == kBroadcast) Join(i, kBroadcast, kReduction, false);
    }
    // Operators that move elements come last, so that none gets between a layer and its functions.
    for (int i = 0; i < Count(); ++i) {
      if (At(i).rule <= kInjective) Join(i, kInjective, kReduction, false);
    }
  }

  /// The layer of the node's group, or the group's first node; nullptr when the node is alone.
  const Node* Anchor(int node) {
    const State& group = At(Leader(node));
    return group.size > 1 ? &NodeAt(group.layer == kNone ? group.first : group.layer) : nullptr;
  }
  int Count() const { return static_cast<int>(states_.size()); }

 private:
  static constexpr int kNone = -1;
  struct State {
    int dominator = kNone;  // kNone: the graph's outputs
    int depth = 0;          // depth in the tree of post-dominators
    int leader = kNone;     // leader of the group, perhaps by way of other nodes
    int visited = 0;        // the last call of Join that reached the node
    // Valid for leaders:
    int layer = kNone;
    int first = kNone;
    int size = 1;
    FusionRule rule = FusionRule::kOpaque;  // rule of the node
    bool closed = false;                    // whether the group ends in a reduction
  };

  const Node& NodeAt(int node) const { return *graph_.nodes()[static_cast<size_t>(node)]; }
  State& At(int node) { return states_[static_cast<size_t>(node)]; }

  /// Visits all consumers of a node's outputs.
  template <typename Visit>
  void ForEachReader(int node, Visit&& visit) const {
    for (const Value* output : NodeAt(node).outputs) {
      if (output == nullptr) continue;
      for (const Node* reader : output->consumers) visit(static_cast<int>(reader->position));
    }
  }

  void FindDominator(int node) {
    State& own = At(node);
    own.first = node;
    for (const Value* output : NodeAt(node).outputs) {
      if (output && graph_.IsOutput(output)) return;
    }
    int common = kNone;
    bool first = true;
    ForEachReader(node, [&](int reader) {
      common = first ? reader : Common(common, reader);
      first = false;
    });
    own.dominator = common;
    if (common != kNone) own.depth = At(common).depth + 1;
  }

  /// The first post-dominator that both have. A node's depth is its distance from the outputs.
  int Common(int a, int b) {
    while (a != b && a != kNone && b != kNone) {
      int& deeper = At(a).depth >= At(b).depth ? a : b;
      deeper = At(deeper).dominator;
    }
    return a == b ? a : kNone;
  }

  int Leader(int node) {
    while (At(node).leader != node) {
      At(node).leader = At(At(node).leader).leader;
      node = At(node).leader;
    }
    return node;
  }

  /// Joins the node, its post-dominator and everything between them to one group. `between` is the
  /// highest rule allowed on the way, `end` that of the post-dominator. `epilogue` says that all of
  /// them compute on what a layer stores, so none changes its shape.
  bool Join(int node, FusionRule between, FusionRule end, bool epilogue) {
    const int sink = At(node).dominator;
    const int leader = Leader(node);
    if (sink == kNone || At(sink).rule > end || Leader(sink) == leader) return false;
    State& own = At(leader);
    // The result of a reduction, and a layer's result that is stored elsewhere, start another
    // group.
    if (own.closed || (own.layer != kNone && !epilogue)) return false;
    std::vector<int> members = {node};
    At(sink).visited = ++calls_;
    for (size_t next = 0; next < members.size(); ++next) {
      bool fits = true;
      ForEachReader(members[next], [&](int reader) {
        State& state = At(reader);
        if (reader != sink && state.rule > between) fits = false;
        if (state.visited != calls_) members.push_back(reader);
        state.visited = calls_;
      });
      if (!fits) return false;
    }
    members[0] = sink;
    int layer = own.layer;
    for (const int member : members) {
      const int other = At(Leader(member)).layer;
      if (epilogue && !SameShape(NodeAt(node), NodeAt(member))) return false;
      if (other == kNone || other == layer) continue;
      // A function may be an operand of a layer's sum; an operator that moves elements does not
      // join a layer.
      if (layer != kNone || between != FusionRule::kBroadcast) return false;
      layer = other;
    }
    for (const int member : members) {
      State& group = At(Leader(member));
      if (&group == &own) continue;
      own.closed = own.closed || group.closed;
      own.first = std::min(own.first, group.first);
      own.size += group.size;
      group.leader = leader;
    }
    own.layer = layer;
    return true;
  }

  const Graph& graph_;
  std::vector<State> states_;
  int calls_ = 0;
};

}  // namespace

// Before: Conv -> Add(residual) -> Relu, each read by the next only
// After:  the same nodes, each naming the Conv as its group
// Conditions, by the operators' rules (OpDef::fusion):
//   out-fusable  takes the broadcast operators behind it that keep its shape; one in a group
//   broadcast    joins broadcast operators, and a reduction at the end
//   injective    joins broadcast and injective operators, and a reduction at the end
//   reduction    ends a group
//   opaque       stays alone
// Formula: a node joins its immediate post-dominator with all nodes on the way (Grouper).
bool FuseOps(Graph& graph, PassContext&) {
  Grouper groups(graph);
  groups.Run();
  bool changed = false;
  for (int i = 0; i < groups.Count(); ++i) {
    Node& node = *graph.nodes()[static_cast<size_t>(i)];
    const Node* anchor = groups.Anchor(i);
    if (anchor ? node.group == anchor->name : node.group.empty()) continue;
    node.group = anchor ? anchor->name : std::string();
    changed = true;
  }
  return changed;
}

}  // namespace requant

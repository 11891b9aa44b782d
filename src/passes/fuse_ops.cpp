#include "passes/fuse_ops.h"

#include <algorithm>
#include <string_view>

#include "passes/pass.h"

namespace requant {
namespace {

constexpr std::string_view kLayers[] = {"Conv",   "ConvTranspose", "Gemm",
                                        "MatMul", "QLinearConv",   "QLinearMatMul",
                                        "QGemm",  "ConvInteger",   "MatMulInteger"};
constexpr std::string_view kActivations[] = {"Relu",
                                             "Clip",
                                             "Sigmoid",
                                             "Tanh",
                                             "LeakyRelu",
                                             "Elu",
                                             "Selu",
                                             "Celu",
                                             "Gelu",
                                             "Mish",
                                             "Softplus",
                                             "HardSwish",
                                             "HardSigmoid",
                                             "PRelu",
                                             "Softsign",
                                             "QuickGelu",
                                             "Swish",
                                             "Lut",
                                             "ThresholdedRelu",
                                             "QLinearSigmoid",
                                             "QLinearLeakyRelu"};

bool IsIn(std::span<const std::string_view> names, const Node& node) {
  return std::find(names.begin(), names.end(), node.op_type) != names.end();
}

bool IsAddition(const Node& node) { return node.Is("Add") || node.op_type == "QLinearAdd"; }

/// The operand slots of the two summands.
size_t OtherSummand(const Node& addition, const Value* one) {
  if (addition.Is("Add")) return addition.input(0) == one ? 1 : 0;
  return addition.input(0) == one ? 3 : 0;  // QLinearAdd(a, s, z, b, s, z, s, z)
}

class Grouper {
 public:
  explicit Grouper(const Graph& graph) : graph_(graph), taken_(graph.nodes().size()) {
    graph.Renumber();
  }

  std::vector<FusionGroup> Run() {
    std::vector<FusionGroup> groups;
    // The last layers choose first, so that a sum of two layers goes to the one that runs last.
    for (size_t i = graph_.nodes().size(); i > 0; --i) {
      const Node* node = graph_.nodes()[i - 1].get();
      if (IsIn(kLayers, *node) && node->output()) groups.push_back(Grow(node));
    }
    std::sort(groups.begin(), groups.end(), [](const FusionGroup& a, const FusionGroup& b) {
      return a.nodes.back()->position < b.nodes.back()->position;
    });
    return groups;
  }

 private:
  FusionGroup Grow(const Node* layer) {
    FusionGroup group;
    group.nodes = {layer};
    group.output = layer->output();
    taken_[layer->position] = true;
    const Node* next = Next(group);
    if (next && IsAddition(*next)) {
      const Value* other = next->input(OtherSummand(*next, group.output));
      if (other == nullptr || other == group.output) return group;
      group.residual = other;
      Take(group, next);
      next = Next(group);
    }
    if (next && IsIn(kActivations, *next) && next->input(0) == group.output) Take(group, next);
    return group;
  }

  /// The only reader of the group's output, if it is free.
  const Node* Next(const FusionGroup& group) const {
    const Node* next = graph_.SoleConsumer(group.output);
    return next && !taken_[next->position] && next->outputs.size() == 1 && next->output() ? next
                                                                                          : nullptr;
  }

  void Take(FusionGroup& group, const Node* node) {
    taken_[node->position] = true;
    group.nodes.push_back(node);
    group.output = node->output();
  }

  const Graph& graph_;
  std::vector<bool> taken_;  // by position
};

}  // namespace

std::string FusionGroup::Pattern() const {
  std::string out;
  for (const Node* node : nodes) out += (out.empty() ? "" : "+") + node->op_type;
  return out;
}

std::vector<FusionGroup> FindFusionGroups(const Graph& graph) { return Grouper(graph).Run(); }

// Before: Conv -> Add(residual) -> Relu, each read by the next only
// After:  the same nodes, each naming the Conv as its group
// Conditions: as FusionGroup says
bool FuseOps(Graph& graph, PassContext&) {
  std::vector<const Node*> anchors(graph.nodes().size());
  for (const FusionGroup& group : FindFusionGroups(graph)) {
    if (group.nodes.size() < 2) continue;
    for (const Node* node : group.nodes) anchors[node->position] = &group.anchor();
  }
  bool changed = false;
  for (const auto& node : graph.nodes()) {
    const Node* anchor = anchors[node->position];
    if (anchor ? node->group == anchor->name : node->group.empty()) continue;
    node->group = anchor ? anchor->name : std::string();
    changed = true;
  }
  return changed;
}

}  // namespace requant

// Fuses operators: an activation becomes the saturation or clamp of its producer, and a chain of
// elementwise functions becomes one table.
#include <algorithm>
#include <map>
#include <set>

#include "quant/assign/assign.h"

namespace requant {
namespace {

bool Quantized(const QuantizationRecord& record, const Node* node) {
  if (node == nullptr) return false;
  const OperatorQuantization* op = record.Find(node->name);
  return op && op->quantized;
}

/// Whether the node is a Relu, or a Clip with constant bounds.
bool IsActivation(const Node& node) {
  if (node.Is(Op::kRelu)) return true;
  if (!node.Is(Op::kClip)) return false;
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    if (node.input(slot) && node.constant(slot) == nullptr) return false;
  }
  return true;
}

/// Whether the requantization of the operator can clamp.
bool CanClamp(const Node& node, QuantRule rule) {
  switch (rule) {
    case QuantRule::kConv:
    case QuantRule::kMatMul:
      return true;
    case QuantRule::kAdd:
    case QuantRule::kMul:
      return node.Is(Op::kAdd) || node.Is(Op::kMul) || node.Is(Op::kSub);
    default:
      return false;
  }
}

class Fusions {
 public:
  Fusions(const Graph& graph, QuantizationRecord& record, const std::set<const Value*>& barriers)
      : graph_(graph), record_(record), barriers_(barriers) {}

  void Run() {
    FindRoots();
    FindRegions();
    for (const auto& node : graph_.nodes()) FuseActivation(*node);
    for (const auto& node : graph_.nodes()) CloseSingle(*node);
  }

 private:
  OperatorQuantization& Op(const Node& node) { return record_.operators.at(node.name); }

  const Value* Root(const Value* value) const {
    const auto found = roots_.find(value);
    return found == roots_.end() ? value : found->second;
  }

  /// Whether the node is a Relu or Clip that its producer computes. A region begins after it.
  bool BelongsToProducer(const Node& node) {
    if (!IsActivation(node) || barriers_.contains(node.inputs[0])) return false;
    const Node* producer = node.inputs[0]->producer;
    return Quantized(record_, producer) && CanClamp(*producer, Op(*producer).rule) &&
           !roots_.contains(producer->outputs[0]) && graph_.SoleConsumer(node.inputs[0]) == &node;
  }

  /// Sets roots_[v] to the value of which v is a function through elementwise operators only.
  void FindRoots() {
    for (const auto& node : graph_.nodes()) {
      if (!Quantized(record_, node.get()) || BelongsToProducer(*node)) continue;
      if (!IsTableCandidate(*node, Op(*node).rule)) continue;
      const Value* root = nullptr;
      bool one = true;
      for (const Value* input : node->inputs) {
        if (input == nullptr || input->is_constant()) continue;
        one = one && (root == nullptr || root == Root(input));
        root = Root(input);
      }
      if (one && root) roots_[node->outputs[0]] = root;
    }
  }

  /// Whether every reader of the value is an operator of the same region.
  bool IsInterior(const Value* value) const {
    const auto root = roots_.find(value);
    if (root == roots_.end() || graph_.IsOutput(value) || value->consumers.empty() ||
        barriers_.contains(value)) {
      return false;
    }
    for (const Node* consumer : value->consumers) {
      const auto other = roots_.find(consumer->output(0));
      if (other == roots_.end() || other->second != root->second) return false;
    }
    return true;
  }

  /// Collects the operators between the root and `node`, with `node` as the last.
  void Collect(const Node& node, std::vector<std::string>& members) {
    for (const Value* input : node.inputs) {
      if (input && roots_.contains(input) && IsInterior(input)) Collect(*input->producer, members);
    }
    for (const std::string& name : members) {
      if (name == node.name) return;
    }
    members.push_back(node.name);
  }

  /// Closes regions until nothing changes: if one cannot be a table, its members may no longer lie
  /// inside of other regions.
  void FindRegions() {
    bool closed = false;
    while (!closed) {
      for (auto& [name, op] : record_.operators) {
        op.activation.clear();
        op.absorbed_by.clear();
        op.table.clear();
        op.table_input.clear();
        op.table_config = -1;
      }
      closed = std::all_of(graph_.nodes().begin(), graph_.nodes().end(),
                           [this](const auto& node) { return FindRegion(*node); });
    }
  }

  /// Finds the value that a closed region is a function of, the nearest materialized one. Returns
  /// false if it would need two: then no single table exists, and the operators stand alone.
  bool FindRegion(const Node& node) {
    const Value* output = node.output(0);
    if (!output || !roots_.contains(output) || IsInterior(output)) return true;
    std::vector<std::string> members;
    Collect(node, members);
    if (members.size() < 2) return true;
    // The input may be a materialized value between root and end, one that has readers outside.
    const Value* input = nullptr;
    bool one = true;
    for (const std::string& name : members) {
      for (const Value* read : graph_.FindNode(name)->inputs) {
        if (read == nullptr || read->is_constant()) continue;
        if (roots_.contains(read) && IsInterior(read)) continue;
        one = one && (input == nullptr || input == read);
        input = read;
      }
    }
    if (one && input) {
      Close(node, members, input);
      return true;
    }
    for (const std::string& name : members) roots_.erase(graph_.FindNode(name)->outputs[0]);
    return false;
  }

  void Close(const Node& end, const std::vector<std::string>& members, const Value* input) {
    OperatorQuantization& op = Op(end);
    op.table = members;
    op.table_input = input->name;
    for (const std::string& name : members) {
      if (name != end.name) record_.operators.at(name).absorbed_by = end.name;
    }
    for (const std::string& name : members) {
      const OperatorQuantization& member = record_.operators.at(name);
      const Node* node = graph_.FindNode(name);
      for (size_t slot = 0; slot < member.inputs.size() && op.table_config < 0; ++slot) {
        if (node->input(slot) == input) op.table_config = member.inputs[slot];
      }
    }
  }

  void FuseActivation(const Node& node) {
    if (!Quantized(record_, &node) || !CanClamp(node, Op(node).rule)) return;
    OperatorQuantization& op = Op(node);
    if (!op.table.empty() || !op.absorbed_by.empty()) return;
    const Node* next = graph_.SoleConsumer(node.outputs[0]);
    if (!Quantized(record_, next) || !IsActivation(*next) || next->inputs[0] != node.outputs[0] ||
        barriers_.contains(node.outputs[0])) {
      return;
    }
    OperatorQuantization& activation = Op(*next);
    if (!activation.table.empty() || !activation.absorbed_by.empty()) return;
    op.activation = next->name;
    activation.absorbed_by = node.name;
  }

  /// Makes a table of a single operator, if it is a function of one value.
  void CloseSingle(const Node& node) {
    if (!NeedsTable(node, Op(node))) return;
    const Value* data = nullptr;
    for (const Value* input : node.inputs) {
      if (input == nullptr || input->is_constant() || input == data) continue;
      if (data) return;
      data = input;
    }
    if (data) Close(node, {node.name}, data);  // else all operands are constants
  }

  const Graph& graph_;
  QuantizationRecord& record_;
  const std::set<const Value*>& barriers_;
  std::map<const Value*, const Value*> roots_;
};

}  // namespace

bool NeedsTable(const Node& node, const OperatorQuantization& op) {
  return op.quantized && op.table.empty() && op.absorbed_by.empty() && !node.Is(Op::kAdd) &&
         !node.Is(Op::kSub) && !node.Is(Op::kMul) && IsTableCandidate(node, op.rule);
}

void FindFusions(const Graph& graph, QuantizationRecord& record,
                 const std::set<const Value*>& barriers) {
  Fusions(graph, record, barriers).Run();
}

bool IsMaterialized(const QuantizationRecord& record, const Value* value) {
  if (value->producer == nullptr) return false;
  const OperatorQuantization* op = record.Find(value->producer->name);
  if (op == nullptr || !op->quantized || !op->activation.empty() || op->float_output) return false;
  if (op->absorbed_by.empty()) return true;
  const OperatorQuantization* by = record.Find(op->absorbed_by);
  return by && by->activation == value->producer->name;
}

bool IsInside(const QuantizationRecord& record, const Value* value) {
  const OperatorQuantization* op = value->producer ? record.Find(value->producer->name) : nullptr;
  return op && op->quantized && !op->float_output && !IsMaterialized(record, value);
}

}  // namespace requant

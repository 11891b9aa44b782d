#include "quant/lower/expand_signs.h"

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "numeric/sign_steps.h"
#include "quant/assign/assign.h"
#include "quant/assign/joint.h"

namespace requant {
namespace {

/// Whether the config is of signs that something computes; constants are -1 and 1 already.
bool IsSign(const TensorQuantizationConfig& config) {
  return config.bipolar() && config.baked.empty() && config.dominator < 0 &&
         IsQuantizing(config.state) && config.scale.size() == 1;
}

/// Whether a passive operator gives other numbers than its data's.
bool ChangesValues(const Node& node) {
  return node.Is(Op::kRelu) || node.Is(Op::kClip) || node.Is(Op::kPad);
}

class SignExpander {
 public:
  explicit SignExpander(const QuantizedModel& model)
      : out_{model.float_graph.Clone(), model.record} {
    out_.record.expand_signs = nullptr;
  }

  QuantizedModel Run() {
    QuantizationRecord& record = out_.record;
    for (size_t i = 0; i < record.configs.size(); ++i) roots_.push_back(Root(static_cast<int>(i)));
    for (const int root : roots_) {
      if (IsSign(Config(root)) && !held_.contains(root)) held_[root] = Hold(root);
    }
    std::vector<Node*> nodes;
    for (const auto& node : out_.float_graph.nodes()) nodes.push_back(node.get());
    for (Node* node : nodes) Write(*node);
    for (Node* node : nodes) Read(*node);
    for (size_t i = 0; i < roots_.size(); ++i) {
      const auto held = held_.find(roots_[i]);
      if (held != held_.end() && !made_.contains(static_cast<int>(i))) {
        Follow(static_cast<int>(i), held->second);
      }
    }
    out_.float_graph.SortTopologically();
    return std::move(out_);
  }

 private:
  TensorQuantizationConfig& Config(int index) {
    return out_.record.configs[static_cast<size_t>(index)];
  }
  int Root(int index) const { return out_.record.RootIndex(index); }
  /// The root that the slot had in the model, if it is one of signs; else -1.
  int SignRoot(int index) const {
    if (index < 0 || static_cast<size_t>(index) >= roots_.size()) return -1;
    const int root = roots_[static_cast<size_t>(index)];
    return held_.contains(root) ? root : -1;
  }
  int Add(TensorQuantizationConfig config) {
    out_.record.configs.push_back(std::move(config));
    return static_cast<int>(out_.record.configs.size()) - 1;
  }
  void Follow(int index, int root) {
    Config(index).dominator = root;
    Config(index).state = QuantizationState::kOverlapped;
  }

  /// The plain grid of -1..1 for what reads signs.
  int Hold(int root) {
    TensorQuantizationConfig config = Config(root);
    config.bits = 2;
    config.threshold = 0;
    return Add(std::move(config));
  }

  /// The grid of two codes from which signs come.
  int MakeSource(int root, const SignSteps& steps) {
    TensorQuantizationConfig config = Config(root);
    config.policy = (config.policy & ~kSymmetrical) | kAsymmetrical;
    config.scale = {steps.step};
    config.offset = {steps.zero_point};
    config.quant_min = -1;
    config.quant_max = 0;
    config.threshold = 0;
    return Add(std::move(config));
  }

  int Overlapped(const Node& node, const Value* value, bool is_output, int root) {
    TensorQuantizationConfig config = Config(root);
    config.node = node.name;
    config.value = value->name;
    config.is_output = is_output;
    config.slot = 0;
    const int index = Add(std::move(config));
    Follow(index, root);
    return index;
  }

  int Float(const Node& node, const Value* value) {
    TensorQuantizationConfig config;
    config.node = node.name;
    config.value = value->name;
    config.slot = 1;
    config.state = QuantizationState::kFp32;
    return Add(std::move(config));
  }

  /// Adds the operators that make `signs` of `value`, which is on the grid of config `source`.
  void AddOperators(Value* value, Value* signs, const SignSteps& steps, int source, int held) {
    Graph& graph = out_.float_graph;
    const std::string name = value->name + "_sign";
    Value* factor = graph.AddConstant(name + "_factor", Tensor::Scalar(steps.factor));
    Value* shift = graph.AddConstant(name + "_shift", Tensor::Scalar(steps.shift));
    Value* scaled =
        graph.AddOp("Mul", "", {value, factor}, name + "_scaled", value->type, {}, name + "_mul");
    const Node& mul = *scaled->producer;
    const Node& add = *graph.AddNode("Add", "", {scaled, shift}, {signs}, {}, name);
    OperatorQuantization first;
    first.op_type = "Mul";
    first.rule = QuantRule::kMul;
    first.quantized = true;
    first.inputs = {Overlapped(mul, value, false, source), Float(mul, factor)};
    first.outputs = {Overlapped(mul, scaled, true, held)};
    first.absorbed_by = add.name;
    OperatorQuantization last;
    last.op_type = "Add";
    last.rule = QuantRule::kAdd;
    last.quantized = true;
    last.inputs = {Overlapped(add, scaled, false, held), Float(add, shift)};
    last.outputs = {Overlapped(add, signs, true, held)};
    last.table = {mul.name, add.name};
    last.table_input = value->name;
    last.table_config = first.inputs[0];
    out_.record.operators[mul.name] = std::move(first);
    out_.record.operators[add.name] = std::move(last);
  }

  /// Whether the operator computes signs, instead of passing on those that it reads.
  bool Computes(const Node& node, const OperatorQuantization& op, int root) {
    const bool moves = op.rule == QuantRule::kPassive && op.absorbed_by.empty();
    if (moves && !ChangesValues(node)) return SignRoot(op.inputs[0]) != root;
    if (op.rule != QuantRule::kConcat) return true;
    for (const int input : op.inputs) {
      if (input >= 0 && SignRoot(input) != root) return true;
    }
    return false;
  }

  /// Makes signs of what the operator writes.
  void Write(Node& node) {
    const std::vector<Value*> outputs = node.outputs;
    for (size_t slot = 0; slot < outputs.size(); ++slot) {
      const OperatorQuantization* op = out_.record.Find(node.name);
      Value* value = outputs[slot];
      if (op == nullptr || !op->quantized || value == nullptr || slot >= op->outputs.size() ||
          !IsMaterialized(out_.record, value)) {
        continue;
      }
      const int index = op->outputs[slot];
      const int root = SignRoot(index);
      if (root < 0 || !Computes(node, *op, root)) continue;
      const SignSteps steps = StepsOfSigns(Config(root).scale[0], Config(root).threshold);
      const int source = MakeSource(root, steps);
      std::vector<int> written = {index};
      if (const OperatorQuantization* by = out_.record.Find(op->absorbed_by)) {
        written.push_back(by->outputs[0]);
        written.push_back(op->inputs[0]);
      }
      for (const int one : written) {
        Follow(one, source);
        made_.insert(one);
      }
      const std::string name = value->name;
      Value* signs = out_.float_graph.AddValue(name + "_signs", value->type);
      out_.float_graph.ReplaceAndKeepName(value, signs);
      for (auto& [other, region] : out_.record.operators) {
        if (region.table_input == name) region.table_input = signs->name;
      }
      AddOperators(value, signs, steps, source, held_.at(root));
    }
  }

  /// Makes signs of what the operator reads, where nothing wrote them.
  void Read(Node& node) {
    const std::string name = node.name;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const OperatorQuantization* op = out_.record.Find(name);
      Value* value = node.inputs[slot];
      if (op == nullptr || !op->quantized || value == nullptr || value->is_constant() ||
          slot >= op->inputs.size() || IsInside(out_.record, value)) {
        continue;
      }
      const int root = SignRoot(op->inputs[slot]);
      if (root < 0 || !IsQuantizing(Config(op->inputs[slot]).state)) continue;
      const int written = OutputConfig(out_.record, value);
      if (written >= 0 && IsMaterialized(out_.record, value) &&
          (Root(written) == held_.at(root) || SignRoot(written) == root)) {
        continue;
      }
      Value*& signs = read_[{value, root}];
      if (signs == nullptr) {
        const SignSteps steps = StepsOfSigns(Config(root).scale[0], Config(root).threshold);
        signs = out_.float_graph.AddValue(value->name + "_signs", value->type);
        AddOperators(value, signs, steps, MakeSource(root, steps), held_.at(root));
      }
      if (op->table_input == value->name) out_.record.operators.at(name).table_input = signs->name;
      for (auto& [other, region] : out_.record.operators) {
        if (region.absorbed_by.empty() && region.table_input == value->name) {
          for (const std::string& member : region.table) {
            if (member == name) region.table_input = signs->name;
          }
        }
      }
      out_.float_graph.SetInput(&node, slot, signs);
    }
  }

  QuantizedModel out_;
  std::vector<int> roots_;   // by config of the model
  std::map<int, int> held_;  // by root of signs: the grid of -1..1
  std::set<int> made_;       // configs of what is written before it becomes signs
  std::map<std::pair<Value*, int>, Value*> read_;
};

}  // namespace

void FindSigns(QuantizationRecord& record) {
  record.expand_signs = nullptr;
  for (const TensorQuantizationConfig& config : record.configs) {
    if (IsSign(config)) record.expand_signs = &ExpandSigns;
  }
}

QuantizedModel ExpandSigns(const QuantizedModel& model) { return SignExpander(model).Run(); }

}  // namespace requant

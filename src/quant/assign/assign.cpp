#include "quant/assign/assign.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "quant/assign/slot_options.h"
#include "quant/graph/body_scope.h"
#include "quant/graph/masks.h"
#include "quant/graph/soi.h"
#include "quant/graph/statistics.h"
#include "quant/grid/affine.h"

namespace requant {
namespace {

constexpr const char* kTwoValues = "there is no integer operator for two values";

class Assigner {
 public:
  Assigner(const Graph& graph, const QuantizeOptions& options,
           const std::map<std::string, std::string>& reasons)
      : graph_(graph),
        options_(options),
        reasons_(reasons),
        soi_(ShapeOrIndexValues(graph)),
        statistics_(FindStatistics(graph, soi_)),
        masks_(FindMasks(graph, soi_, statistics_)) {}

  QuantizationRecord Run() {
    CheckOptions();
    for (const auto& node : graph_.nodes()) Classify(*node);
    if (options_.float_outputs) FindLast();
    do {
      ChooseOperators();
    } while (FindFloatFunctions());
    for (auto& [name, op] : record_.operators) {
      if (!op.quantized && op.reason.empty()) op.reason = "its operands are computed in float";
    }
    for (const auto& node : graph_.nodes()) MakeConfigs(*node);
    FindFusions(graph_, record_);
    FindFloatOutputs();
    ApplySlotOptions(graph_, options_, record_);
    return std::move(record_);
  }

 private:
  OperatorQuantization& Op(const Node& node) { return record_.operators.at(node.name); }

  const OperatorSettings& SettingsOf(const Node& node) const {
    return options_.Of(node.name, node.op_type);
  }

  static void CheckOperator(const OperatorSettings& settings, const std::string& where) {
    if (!settings.quantize) return;
    CheckTensorSettings(settings.activations, false, StrCat("activations of ", where));
    CheckTensorSettings(settings.weights, true, StrCat("weights of ", where));
  }

  void CheckOptions() const {
    CheckOperator(options_.global, "all operators");
    for (const auto& [type, settings] : options_.by_type) CheckOperator(settings, type);
    std::set<std::string> in_bodies;
    VisitBodies(graph_,
                [&](const std::string& path, const Node&, const Node&) { in_bodies.insert(path); });
    for (const auto& [name, settings] : options_.by_name) {
      if (graph_.FindNode(name) == nullptr && !in_bodies.contains(name)) {
        Fail(ErrorCode::kInvalidArgument, StrCat("there is no operator named '", name, "'"),
             {.node = name, .hint = "list the operators of the optimized model"});
      }
      CheckOperator(settings, name);
    }
  }

  /// WhyFloat, with the integer operators that only options ask for.
  const char* WhyFloatHere(const Node& node, QuantRule rule) const {
    const char* why = WhyFloat(graph_, node, rule, soi_);
    const bool wanted = IsNormalization(node) && SettingsOf(node).integer_normalizations;
    return wanted && why == std::string_view(kNoIntegerOperator) ? WhyFloatNormalization(node)
                                                                 : why;
  }

  void Classify(const Node& node) {
    OperatorQuantization op;
    op.op_type = node.op_type;
    op.rule = RuleOf(node);
    if (!SettingsOf(node).quantize) {
      op.reason = kKeptByOptions;
    } else if (const auto given = reasons_.find(node.name); given != reasons_.end()) {
      op.reason = given->second;
    } else if (const char* why = WhyFloatHere(node, op.rule)) {
      op.reason = why;
    } else if (statistics_.contains(&node)) {
      op.reason = "it belongs to a normalization, whose statistics need float";
    } else if (masks_.nodes.contains(&node)) {
      op.reason = "it masks its operand, whose scale the mask would take";
    }
    record_.operators.emplace(node.name, std::move(op));
  }

  /// Whether only operators that move values lie between the node and the graph's outputs.
  bool IsLast(const Node& node) const {
    return std::all_of(node.outputs.begin(), node.outputs.end(), [this](const Value* value) {
      return value == nullptr ||
             ((graph_.IsOutput(value) || !value->consumers.empty()) &&
              std::all_of(value->consumers.begin(), value->consumers.end(),
                          [this](const Node* reader) { return movers_.contains(reader); }));
    });
  }

  /// Keeps the last operators float that cannot write floats themselves: graph outputs are floats,
  /// so quantizing such an operator would only round its result.
  void FindLast() {
    constexpr QuantRule kRules[] = {QuantRule::kPassive, QuantRule::kAveragePool, QuantRule::kAdd,
                                    QuantRule::kMul, QuantRule::kConcat};
    for (auto i = graph_.nodes().rbegin(); i != graph_.nodes().rend(); ++i) {
      const Node& node = **i;
      OperatorQuantization& op = Op(node);
      if (!IsLast(node)) continue;
      if (op.rule == QuantRule::kPassive || op.rule == QuantRule::kShape) movers_.insert(&node);
      const bool listed =
          std::find(std::begin(kRules), std::end(kRules), op.rule) != std::end(kRules) ||
          IsNormalization(node) ||
          node.Is(Op::kConvTranspose);  // ConvTranspose cannot write its accumulators
      if (op.reason.empty() && listed) op.reason = "it makes an output, which is float";
    }
  }

  /// Chooses the layers that write floats: layers without an activation of their own that the
  /// settings name, or whose readers all want floats. Among convolutions only the last ones
  /// qualify, as large images are cheaper to carry in 8 bits.
  void FindFloatOutputs() {
    for (const auto& node : graph_.nodes()) {
      OperatorQuantization& op = Op(*node);
      if (!op.quantized || !HasFloatForm(*node, op.rule) || !op.activation.empty() ||
          !op.absorbed_by.empty() || !op.table.empty()) {
        continue;
      }
      const std::vector<Node*>& readers = node->outputs[0]->consumers;
      const bool last = std::all_of(readers.begin(), readers.end(), [this](const Node* reader) {
        return movers_.contains(reader) || IsLast(*reader);
      });
      const bool wanted = options_.float_outputs && (op.rule == QuantRule::kMatMul || last) &&
                          std::none_of(readers.begin(), readers.end(), [this](const Node* reader) {
                            return Op(*reader).quantized;
                          });
      op.float_output = wanted || SettingsOf(*node).float_output;
      if (!op.float_output) continue;
      TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(op.outputs[0])];
      Transit(config.state, QuantizationState::kFp32, node->name);
    }
  }

  bool IsData(const Value* value) const {
    return value && !value->is_constant() && !soi_.contains(value);
  }

  /// Whether one of the two factors comes from a graph input, as gates of channels or pixels do.
  /// (The addend of an Add does not count: it may be a mask, and 8 bits would destroy its large
  /// negative values.)
  bool MultipliesInput(const Node& node) const {
    return node.Is(Op::kMul) &&
           std::any_of(node.inputs.begin(), node.inputs.end(),
                       [this](const Value* input) { return graph_.IsInput(input); });
  }

  /// Whether the operator is float only because it is a function of two values, which no integer
  /// operator computes. This is no reason for its neighbors to be float, too.
  bool IsAlone(const Node& node) {
    const std::string& reason = Op(node).reason;
    if (reason == kTwoValues) return true;
    const bool function =
        node.Is(Op::kDiv) || node.Is(Op::kMin) || node.Is(Op::kMax) || node.Is(Op::kPow);
    return function && (reason.empty() || reason == kNoIntegerOperator) &&
           std::all_of(node.inputs.begin(), node.inputs.end(), [this](const Value* input) {
             return IsData(input) && (bytes_.contains(input) || graph_.IsInput(input));
           });
  }

  void Choose(const Node& node) {
    Op(node).quantized = true;
    for (const Value* output : node.outputs) {
      if (output) bytes_.insert(output);
    }
  }

  /// Chooses the operators to quantize. Operators with weights are the purpose of quantization; the
  /// others follow if their operands are in 8 bits anyway. Between float operators they would only
  /// cost accuracy, as inside of a decomposed LayerNormalization.
  void ChooseOperators() {
    for (const auto& node : graph_.nodes()) {
      if (Op(*node).reason.empty() && WeightSlot(*node, Op(*node).rule) >= 0) {
        Choose(*node);
        bytes_.insert(node->inputs[0]);
      }
    }
    for (bool changed = true; changed;) {
      changed = false;
      for (const auto& node : graph_.nodes()) {
        OperatorQuantization& op = Op(*node);
        if (op.quantized) continue;
        const bool alone = IsAlone(*node) && !bytes_.contains(node->outputs[0]);
        if (!op.reason.empty() && !alone) continue;
        int data = 0;
        int in_bytes = 0;
        for (size_t slot = 0; slot < node->inputs.size(); ++slot) {
          if (!IsData(node->input(slot))) continue;
          if (op.rule == QuantRule::kPassive && slot > 0) continue;
          ++data;
          in_bytes += bytes_.contains(node->input(slot));
        }
        // For a product of two activations it pays to quantize one of them just for it.
        const bool product = op.rule == QuantRule::kMatMul || MultipliesInput(*node);
        const bool enough = product || alone ? in_bytes > 0 : in_bytes == data;
        if (data == 0 || !enough) continue;
        changed = true;
        if (alone) {
          op.reason = kTwoValues;
          bytes_.insert(node->outputs[0]);
        } else {
          Choose(*node);
        }
      }
    }
    // An operator that moves float values runs in 8 bits if every reader wants 8 bits.
    for (auto i = graph_.nodes().rbegin(); i != graph_.nodes().rend(); ++i) {
      const Node& node = **i;
      OperatorQuantization& op = Op(node);
      if (op.quantized || !op.reason.empty() || op.rule != QuantRule::kPassive) continue;
      bool wanted = node.outputs.size() == 1 && !graph_.IsOutput(node.outputs[0]) &&
                    !node.outputs[0]->consumers.empty() && IsData(node.inputs[0]);
      for (const Node* consumer : node.outputs[0]->consumers) {
        wanted = wanted && Op(*consumer).quantized;
      }
      if (wanted) Choose(node);
    }
  }

  /// Gives a reason to stay float to functions of two values (a Div or Max of two layers) that no
  /// region turns into a function of one. Returns true if it found any: everything has to be chosen
  /// anew then.
  bool FindFloatFunctions() {
    FindFusions(graph_, record_);
    bool any = false;
    for (const auto& node : graph_.nodes()) {
      if (!NeedsTable(*node, Op(*node))) continue;
      Op(*node).reason = kTwoValues;
      any = true;
    }
    if (!any) return false;
    bytes_.clear();
    for (auto& [name, op] : record_.operators) op.quantized = false;
    return true;
  }

  int AddConfig(const Node& node, bool is_output, size_t slot, const Value* value,
                const TensorSettings* settings, bool weights, QuantizationState state) {
    TensorQuantizationConfig config;
    config.node = node.name;
    config.is_output = is_output;
    config.slot = static_cast<int>(slot);
    if (value) config.value = value->name;
    if (settings) ApplySettings(*settings, weights, config);
    Transit(config.state, state, node.name);
    record_.configs.push_back(std::move(config));
    return static_cast<int>(record_.configs.size()) - 1;
  }

  void MakeConfigs(const Node& node) {
    OperatorQuantization& op = Op(node);
    const OperatorSettings& settings = SettingsOf(node);
    const int weight = op.quantized ? WeightSlot(node, op.rule) : -1;
    const int bias = op.quantized && weight >= 0 ? BiasSlot(node, op.rule) : -1;
    const size_t slots = std::max(node.inputs.size(), static_cast<size_t>(bias + 1));
    for (size_t slot = 0; slot < slots; ++slot) {
      const Value* value = node.input(slot);
      const auto index = static_cast<int>(slot);
      int config = -1;
      if (index == bias) {
        config =
            AddConfig(node, false, slot, value, nullptr, true, QuantizationState::kPassiveInit);
        TensorQuantizationConfig& made = record_.configs.back();
        made.policy = kPerChannel | kLinear | kSymmetrical;
        made.bits = 32;
        made.dtype = DType::kInt32;
        made.quant_min = StorageMin(DType::kInt32);
        made.quant_max = StorageMax(DType::kInt32);
        made.axis = 0;
      } else if (value == nullptr) {
        config = -1;
      } else if (soi_.contains(value) || IsParameter(node, op, slot)) {
        config = AddConfig(node, false, slot, value, nullptr, false, QuantizationState::kSoi);
      } else if (!op.quantized || (IsNormalization(node) && slot > 0)) {
        config = AddConfig(node, false, slot, value, nullptr, false, QuantizationState::kFp32);
      } else if (index == weight) {
        TensorSettings own = settings.weights;
        own.per_channel = own.per_channel && WeightAxis(node, op.rule) >= 0;
        config = AddConfig(node, false, slot, value, &own, true, QuantizationState::kInitial);
        record_.configs.back().axis = WeightAxis(node, op.rule);
      } else if (value->is_constant()) {
        config = AddConfig(node, false, slot, value, &settings.activations, false,
                           ConstantState(op.rule));
      } else {
        config = AddConfig(node, false, slot, value, &settings.activations, false,
                           QuantizationState::kInitial);
      }
      op.inputs.push_back(config);
    }
    for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
      const Value* value = node.output(slot);
      if (value == nullptr) {
        op.outputs.push_back(-1);
        continue;
      }
      const QuantizationState state = op.quantized           ? QuantizationState::kInitial
                                      : soi_.contains(value) ? QuantizationState::kSoi
                                                             : QuantizationState::kFp32;
      op.outputs.push_back(AddConfig(node, true, slot, value,
                                     op.quantized ? &settings.activations : nullptr, false, state));
    }
  }

  /// Whether the slot holds floats that steer a passive operator instead of passing through it
  /// (Resize's scales).
  static bool IsParameter(const Node& node, const OperatorQuantization& op, size_t slot) {
    return op.rule == QuantRule::kPassive && slot > 0 && !(node.Is(Op::kPad) && slot == 2);
  }

  /// The state of a constant operand. Operands of Add and Mul have a scale of their own; bounds,
  /// pad values and constants of a Concat take that of the data.
  static QuantizationState ConstantState(QuantRule rule) {
    return rule == QuantRule::kAdd || rule == QuantRule::kMul ? QuantizationState::kInitial
                                                              : QuantizationState::kPassiveInit;
  }

  const Graph& graph_;
  const QuantizeOptions& options_;
  const std::map<std::string, std::string>& reasons_;
  std::set<const Value*> soi_;
  std::set<const Node*> statistics_;
  Masks masks_;
  std::set<const Value*> bytes_;  // values that are in 8 bits anyway
  // operators that move values, between the last computation and the outputs
  std::set<const Node*> movers_;
  QuantizationRecord record_;
};

}  // namespace

QuantizationRecord AssignConfigs(const Graph& graph, const QuantizeOptions& options,
                                 const std::map<std::string, std::string>& reasons) {
  return Assigner(graph, options, reasons).Run();
}

}  // namespace requant

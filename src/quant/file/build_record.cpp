// Finds the operators of a file whose operands and results all have Q/DQ pairs: they become integer
// operators.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "ops/quantized/wide.h"
#include "quant/assign/assign.h"
#include "quant/file/file_quantization.h"
#include "quant/graph/soi.h"
#include "quant/grid/affine.h"
#include "quant/weights/weights.h"

namespace requant {
namespace {

class RecordBuilder {
 public:
  RecordBuilder(const Graph& graph, FileQuantization& file)
      : graph_(graph), file_(file), soi_(ShapeOrIndexValues(graph)) {
    for (const auto& node : graph_.nodes()) TakeFromShapes(*node);
  }

  QuantizationRecord Run() {
    for (const auto& node : graph_.nodes()) Passthrough(*node);
    for (const auto& [name, config] : file_.writes) {
      if (const Value* value = graph_.FindValue(name)) barriers_.insert(value);
    }
    for (const auto& node : graph_.nodes()) {
      OperatorQuantization op;
      op.op_type = node->op_type;
      op.rule = RuleOf(*node);
      const char* why = WhyFloat(graph_, *node, op.rule, soi_);
      op.quantized = why == nullptr;
      if (why) op.reason = why;
      record_.operators.emplace(node->name, std::move(op));
    }
    while (Settle()) {
    }
    for (const auto& node : graph_.nodes()) MakeConfigs(*node);
    for (const auto& node : graph_.nodes()) Link(*node);
    return std::move(record_);
  }

 private:
  /// Removes data from the shape values (soi_): the rounded values of the file, even if they were
  /// cast from integers, and everything computed from them.
  void TakeFromShapes(const Node& node) {
    const OpDef* op = FindOp(node);
    const bool of_data =
        (op == nullptr || op->quant != QuantRule::kShape) &&
        std::any_of(node.inputs.begin(), node.inputs.end(), [&](const Value* input) {
          return input && !input->is_constant() && !soi_.contains(input);
        });
    for (const Value* output : node.outputs) {
      if (output == nullptr || output->type.dtype != DType::kFloat32) continue;
      if (of_data || file_.writes.contains(output->name)) soi_.erase(output);
    }
  }

  OperatorQuantization& Op(const Node& node) { return record_.operators.at(node.name); }

  const TensorQuantizationConfig* Read(const Node& node, size_t slot) const {
    const auto found = file_.reads.find({node.name, slot});
    return found == file_.reads.end() ? nullptr : &found->second;
  }

  /// Gives the output of a passive operator its input's format, if a DequantizeLinear precedes it
  /// and floats follow: the integers just pass through.
  void Passthrough(const Node& node) {
    const TensorQuantizationConfig* input = Read(node, 0);
    const QuantRule rule = RuleOf(node);
    if (input == nullptr || rule != QuantRule::kPassive || WhyFloat(graph_, node, rule, soi_) ||
        !PadsOnGrid(node)) {
      return;
    }
    const TensorQuantizationConfig config = *input;
    for (const Value* output : node.outputs) {
      if (output == nullptr || file_.writes.contains(output->name)) continue;
      file_.writes[output->name] = config;
      for (const Node* consumer : output->consumers) {
        for (size_t slot = 0; slot < consumer->inputs.size(); ++slot) {
          if (consumer->inputs[slot] == output)
            file_.reads.emplace(SlotKey(consumer->name, slot), config);
        }
      }
    }
  }

  /// Whether a Pad adds a number that its data's integers can represent. This is 0, which lies on
  /// every grid, or any number if everything the Pad writes is rounded to the grid of its data.
  bool PadsOnGrid(const Node& node) const {
    const Tensor* value = node.Is(Op::kPad) ? node.constant(2) : nullptr;
    const TensorQuantizationConfig* data = Read(node, 0);
    if (!value || !data || value->count() != 1 || value->AsDouble(0) == 0) return true;
    const auto written = file_.writes.find(node.outputs[0]->name);
    return written != file_.writes.end() && SameQuantization(written->second, *data);
  }

  bool GoodWeights(const Node& node, const OperatorQuantization& op) const {
    const TensorQuantizationConfig* config = Read(node, 1);
    if (config == nullptr || config->baked.empty() || !IsByte(config->dtype)) return false;
    return config->scale.size() == 1 || config->axis == WeightAxis(node, op.rule);
  }

  /// Whether the bias leaves enough of int32's range to the products. Tools saturate the biases of
  /// channels whose weights are close to 0; and where the scale of the weights is coarse, the
  /// integers of the bias are coarse, too.
  bool IsGoodBias(const Node& node, const OperatorQuantization& op) const {
    const std::vector<double> bias = BiasOf(node, op);
    if (bias.empty()) return true;
    for (const double real : bias) {
      if (!std::isfinite(real)) return false;
    }
    const TensorQuantizationConfig* input = Read(node, 0);
    const Node* last = op.activation.empty() ? &node : graph_.FindNode(op.activation);
    const auto written = file_.writes.find(last->outputs[0]->name);
    if (op.float_output || input == nullptr || written == file_.writes.end()) return true;
    const double room = MostBias(*Read(node, 1), *input, bias.size());
    constexpr double kOfStep = 0.25;
    const double most = kOfStep * static_cast<double>(written->second.scale[0]);
    const TensorQuantizationConfig& weights = *Read(node, 1);
    const TensorQuantizationConfig config = BiasInProducts(node, op);
    for (size_t row = 0; row < bias.size(); ++row) {
      const auto integer = static_cast<double>(config.baked.data<int32_t>()[row]);
      const double unit =
          static_cast<double>(input->scale[0]) * weights.ScaleOfRow(static_cast<int64_t>(row));
      if (std::fabs(integer) > room || std::fabs(integer * unit - bias[row]) > most) return false;
    }
    return true;
  }

  std::vector<double> BiasOf(const Node& node, const OperatorQuantization& op) const {
    const int slot = BiasSlot(node, op.rule);
    if (slot < 0) return {};
    return ReadBias(node.constant(static_cast<size_t>(slot)), ViewWeights(node, op.rule).rows);
  }

  /// The config of the bias in int32, with the scales of the products.
  TensorQuantizationConfig BiasInProducts(const Node& node, const OperatorQuantization& op) const {
    const TensorQuantizationConfig* file = Read(node, static_cast<size_t>(BiasSlot(node, op.rule)));
    const std::vector<double> bias = BiasOf(node, op);
    const auto rows = static_cast<int64_t>(bias.size());
    TensorQuantizationConfig config;
    config.bits = 32;
    config.dtype = DType::kInt32;
    config.quant_min = StorageMin(DType::kInt32);
    config.quant_max = StorageMax(DType::kInt32);
    config.axis = 0;
    config.state = QuantizationState::kPassiveInit;
    BakeBias(bias, Read(node, 0)->scale, *Read(node, 1), config);
    if (file && file->dtype == DType::kInt32 && !config.baked.empty() &&
        file->baked.count() == rows && SameScales(file->scale, config.scale)) {
      config.baked = file->baked.Reshaped({rows});  // doubles are exact where floats are not
    }
    return config;
  }

  /// Stores the bias in scales that are powers of two, which represent every float exactly. This is
  /// possible where the accumulators become floats, as no integers are added to them.
  static void KeepFloats(const std::vector<double>& bias, TensorQuantizationConfig& config) {
    if (config.baked.empty()) return;
    const std::vector<double> now = DequantizeParameter(config.baked, config).ToDoubles();
    bool exact = true;
    for (size_t row = 0; row < bias.size(); ++row) {
      exact = exact && std::fabs(now[row] - bias[row]) <= 0x1p-22 * std::fabs(bias[row]);
    }
    if (exact) return;
    config.scale.clear();
    // our own integers instead of the file's
    config.baked = Tensor(DType::kInt32, {static_cast<int64_t>(bias.size())});
    for (size_t row = 0; row < bias.size(); ++row) {
      constexpr int kDigits = 24;  // digits of a float's significand
      int exponent = 0;
      std::frexp(bias[row], &exponent);
      exponent = std::max(exponent - kDigits, -126);
      config.scale.push_back(std::ldexp(1.0F, exponent));
      config.baked.data<int32_t>()[row] =
          static_cast<int32_t>(std::nearbyint(std::ldexp(bias[row], -exponent)));
    }
    config.offset.assign(config.scale.size(), 0);
    config.policy = kLinear | kSymmetrical | (bias.size() > 1 ? kPerChannel : kPerTensor);
  }

  bool InTable(const Node& node, const OperatorQuantization& op) const {
    if (!op.table.empty()) return true;
    return !op.absorbed_by.empty() && record_.Find(op.absorbed_by)->activation != node.name;
  }

  /// Whether all operators that one table replaces read its input on one grid.
  bool IsOneTable(const OperatorQuantization& op) const {
    const TensorQuantizationConfig* first = nullptr;
    for (const std::string& name : op.table) {
      const Node& member = *graph_.FindNode(name);
      for (size_t slot = 0; slot < member.inputs.size(); ++slot) {
        if (member.inputs[slot] == nullptr || member.inputs[slot]->name != op.table_input) continue;
        const TensorQuantizationConfig* read = Read(member, slot);
        if (first == nullptr) first = read;
        if (read == nullptr || !SameCodes(*read, *first)) return false;
      }
    }
    return true;
  }

  /// Whether the file gives integers to everything that the node reads and writes.
  bool IsSurrounded(const Node& node) {
    const OperatorQuantization& op = Op(node);
    const int weight = WeightSlot(node, op.rule);
    if ((weight >= 0 && !GoodWeights(node, op)) || NeedsTable(node, op) || !IsOneTable(op) ||
        !PadsOnGrid(node)) {
      return false;
    }
    const bool bytes_only = LacksWideForm(node, op.rule);
    bool any_data = false;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Value* value = node.inputs[slot];
      const auto index = static_cast<int>(slot);
      if (value == nullptr || index == weight) continue;
      // Floats that are cast from indices are data without a grid.
      if (soi_.contains(value) && value->type.dtype != DType::kFloat32) continue;
      if (weight >= 0 && index == BiasSlot(node, op.rule)) continue;
      if (op.rule == QuantRule::kPassive && slot > 0) continue;
      const TensorQuantizationConfig* config = Read(node, slot);
      if (value->is_constant()) {
        const bool fits =
            config && !config->baked.empty() && IsCode(config->dtype) && config->scale.size() == 1;
        if (!fits && !InTable(node, op) && op.op_type != "Clip") return false;
        continue;
      }
      any_data = true;
      if (config ? config->wide() && bytes_only : !IsInside(record_, value)) return false;
    }
    if (weight >= 0 && !IsGoodBias(node, op)) return false;
    for (const Value* output : node.outputs) {
      if (output == nullptr || !IsMaterialized(record_, output)) continue;
      const auto written = file_.writes.find(output->name);
      if (written == file_.writes.end() || (written->second.wide() && bytes_only)) return false;
    }
    return any_data;
  }

  /// Finds the fusions of the operators that remain; true if it had to remove some.
  bool Settle() {
    for (auto& [name, op] : record_.operators) op.float_output = false;
    FindFusions(graph_, record_, barriers_);
    for (const auto& node : graph_.nodes()) {
      OperatorQuantization& op = Op(*node);
      op.float_output = HasFloatForm(*node, op.rule) && IsMaterialized(record_, node->outputs[0]) &&
                        !file_.writes.contains(node->outputs[0]->name);
    }
    std::vector<OperatorQuantization*> lost;
    for (const auto& node : graph_.nodes()) {
      if (Op(*node).quantized && !IsSurrounded(*node)) lost.push_back(&Op(*node));
    }
    for (OperatorQuantization* op : lost) {
      op->quantized = false;
      op->reason = "the file has no Q/DQ on all of its sides";
    }
    return !lost.empty();
  }

  int AddConfig(TensorQuantizationConfig config, const Node& node, bool is_output, size_t slot,
                const Value* value, QuantizationState state) {
    config.node = node.name;
    config.is_output = is_output;
    config.slot = static_cast<int>(slot);
    if (value) config.value = value->name;
    config.state = state;
    const auto half = static_cast<double>(config.scale.empty() ? 0.0f : config.scale[0]);
    if (config.scale.size() == 1 && config.baked.empty()) {
      config.range_min = static_cast<double>(config.quant_min - config.offset[0]) * half;
      config.range_max = static_cast<double>(config.quant_max - config.offset[0]) * half;
    }
    record_.configs.push_back(std::move(config));
    return static_cast<int>(record_.configs.size()) - 1;
  }

  int MakeBias(const Node& node, const OperatorQuantization& op) {
    const auto slot = static_cast<size_t>(BiasSlot(node, op.rule));
    TensorQuantizationConfig config = BiasInProducts(node, op);
    if (op.float_output) KeepFloats(BiasOf(node, op), config);
    const QuantizationState state = config.state;
    return AddConfig(std::move(config), node, false, slot, node.input(slot), state);
  }

  static bool SameScales(const std::vector<float>& a, const std::vector<float>& b) {
    if (a.size() != b.size() && a.size() != 1 && b.size() != 1) return false;
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const float x = a[a.size() == 1 ? 0 : i];
      const float y = b[b.size() == 1 ? 0 : i];
      if (!(std::fabs(x - y) <= 1e-5f * std::fabs(y))) return false;
    }
    return true;
  }

  void MakeConfigs(const Node& node) {
    OperatorQuantization& op = Op(node);
    const int weight = op.quantized ? WeightSlot(node, op.rule) : -1;
    const int bias = weight >= 0 ? BiasSlot(node, op.rule) : -1;
    const size_t slots = std::max(node.inputs.size(), static_cast<size_t>(bias + 1));
    for (size_t slot = 0; slot < slots; ++slot) {
      const Value* value = node.input(slot);
      const TensorQuantizationConfig* file = Read(node, slot);
      const auto plain = [&](QuantizationState state) {
        return AddConfig({}, node, false, slot, value, state);
      };
      if (static_cast<int>(slot) == bias) {
        op.inputs.push_back(MakeBias(node, op));
      } else if (value == nullptr) {
        op.inputs.push_back(-1);
      } else if (soi_.contains(value)) {
        op.inputs.push_back(plain(QuantizationState::kSoi));
      } else if (!op.quantized || (value->is_constant() && (file == nullptr || InTable(node, op) ||
                                                            op.rule == QuantRule::kPassive))) {
        op.inputs.push_back(PadValue(node, op, slot) ? MakePadValue(node, slot)
                                                     : plain(QuantizationState::kFp32));
      } else if (!value->is_constant() && IsInside(record_, value)) {
        op.inputs.push_back(plain(QuantizationState::kOverlapped));
      } else {
        op.inputs.push_back(AddConfig(
            *file, node, false, slot, value,
            value->is_constant() ? QuantizationState::kBaked : QuantizationState::kActivated));
      }
    }
    for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
      const Value* value = node.outputs[slot];
      if (value == nullptr) {
        op.outputs.push_back(-1);
      } else if (!op.quantized || op.float_output) {
        op.outputs.push_back(
            AddConfig({}, node, true, slot, value,
                      soi_.contains(value) ? QuantizationState::kSoi : QuantizationState::kFp32));
      } else if (!IsMaterialized(record_, value)) {
        op.outputs.push_back(
            AddConfig({}, node, true, slot, value, QuantizationState::kOverlapped));
      } else {
        op.outputs.push_back(AddConfig(file_.writes.at(value->name), node, true, slot, value,
                                       QuantizationState::kActivated));
      }
    }
  }

  static bool PadValue(const Node& node, const OperatorQuantization& op, size_t slot) {
    return op.quantized && node.Is(Op::kPad) && slot == 2 && node.constant(2) &&
           node.constant(2)->dtype() == DType::kFloat32;
  }

  int MakePadValue(const Node& node, size_t slot) {
    TensorQuantizationConfig config = *Read(node, 0);
    config.baked = QuantizeParameter(*node.constant(slot), config);
    return AddConfig(std::move(config), node, false, slot, node.input(slot),
                     QuantizationState::kPassiveBaked);
  }

  /// Sets the dominators of the slots that lie inside of a fused operator.
  void Link(const Node& node) {
    OperatorQuantization& op = Op(node);
    if (!op.quantized) return;
    int leader = -1;
    if (!op.activation.empty()) leader = record_.operators.at(op.activation).outputs[0];
    if (!op.absorbed_by.empty()) {
      const OperatorQuantization& by = record_.operators.at(op.absorbed_by);
      leader = by.activation == node.name ? op.outputs[0] : by.outputs[0];
    }
    if (!op.table.empty()) leader = op.outputs[0];
    if (leader < 0) return;
    for (const std::vector<int>* slots : {&op.inputs, &op.outputs}) {
      for (const int index : *slots) {
        if (index < 0 || index == leader) continue;
        TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
        if (config.state == QuantizationState::kOverlapped) config.dominator = leader;
      }
    }
    if (op.table.empty()) return;
    for (const std::string& name : op.table) {
      const OperatorQuantization& member = record_.operators.at(name);
      const Node* inner = graph_.FindNode(name);
      for (size_t slot = 0; slot < member.inputs.size(); ++slot) {
        if (inner->input(slot) && inner->input(slot)->name == op.table_input) {
          op.table_config = member.inputs[slot];
        }
      }
    }
  }

  const Graph& graph_;
  FileQuantization& file_;
  std::set<const Value*> soi_;
  std::set<const Value*> barriers_;
  QuantizationRecord record_;
};

}  // namespace

QuantizationRecord BuildRecord(const Graph& graph, FileQuantization& file) {
  return RecordBuilder(graph, file).Run();
}

}  // namespace requant

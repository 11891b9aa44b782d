// Reads the quantization that a file's Q/DQ nodes spell. Step 1 removes the pairs and remembers
// what each slot was read or written with; step 2 finds the operators that are integer on all
// sides.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "quant/affine.h"
#include "quant/assign.h"
#include "quant/lower/lowering.h"
#include "quant/prepare.h"
#include "quant/quantizer.h"
#include "quant/soi.h"
#include "quant/weights.h"

namespace requant {
namespace {

using SlotKey = std::pair<std::string, size_t>;  // node name, input slot

struct FileQuantization {
  std::map<SlotKey, TensorQuantizationConfig> reads;
  std::map<std::string, TensorQuantizationConfig> writes;  // by value name
};

bool IsSigned(DType dtype) {
  return dtype == DType::kInt2 || dtype == DType::kInt4 || dtype == DType::kInt8;
}

/// Several to a byte.
bool IsPacked(DType dtype) {
  return dtype == DType::kInt4 || dtype == DType::kUint4 || dtype == DType::kInt2 ||
         dtype == DType::kUint2;
}

bool IsParameterType(DType dtype) {
  return IsByte(dtype) || IsPacked(dtype) || dtype == DType::kInt32;
}

/// The 8-bit type that holds a narrower one here.
DType Widened(DType dtype) {
  if (!IsPacked(dtype)) return dtype;
  return IsSigned(dtype) ? DType::kInt8 : DType::kUint8;
}

Tensor Unpacked(const Tensor& tensor) {
  if (!IsPacked(tensor.dtype())) return tensor;
  Tensor out(Widened(tensor.dtype()), tensor.shape());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < out.count(); ++i) to[i] = static_cast<uint8_t>(tensor.AsInt64(i));
  return out;
}

/// The constants of a Q or DQ node as a config; false for forms that have no integer operator here
/// (blocked, other types, computed scales).
bool ReadConfig(const Node& node, DType dtype, int64_t rank, TensorQuantizationConfig& config) {
  const Tensor* scale = node.constant(1);
  const Tensor* zero_point = node.constant(2);
  if (scale == nullptr || scale->dtype() != DType::kFloat32 || scale->rank() > 1 ||
      scale->count() == 0 || (node.input(2) && zero_point == nullptr) ||
      node.attributes.Int("block_size", 0) != 0 || !IsParameterType(dtype)) {
    return false;
  }
  config.scale = scale->ToFloats();
  for (const float value : config.scale) {
    if (!(value > 0) || !std::isfinite(value)) return false;
  }
  config.offset.assign(config.scale.size(), 0);
  if (zero_point) {
    if (zero_point->count() != scale->count() || zero_point->dtype() != dtype) return false;
    for (size_t i = 0; i < config.offset.size(); ++i) {
      config.offset[i] = static_cast<int32_t>(zero_point->AsInt64(static_cast<int64_t>(i)));
    }
  }
  config.dtype = Widened(dtype);
  config.bits = DTypeBits(dtype);
  config.quant_min = StorageMin(config.dtype);
  config.quant_max = StorageMax(config.dtype);
  if (IsPacked(dtype)) {
    const int32_t codes = 1 << config.bits;
    config.quant_min = IsSigned(dtype) ? -codes / 2 : 0;
    config.quant_max = config.quant_min + codes - 1;
  }
  const bool symmetric =
      config.dtype != DType::kUint8 && std::all_of(config.offset.begin(), config.offset.end(),
                                                   [](int32_t offset) { return offset == 0; });
  config.policy = kLinear | (config.scale.size() > 1 ? kPerChannel : kPerTensor) |
                  (symmetric ? kSymmetrical : kAsymmetrical);
  config.observer = "file";
  if (config.scale.size() > 1) {
    int64_t axis = node.attributes.Int("axis", 1);
    if (axis < 0) axis += rank;
    config.axis = static_cast<int>(axis);
  }
  return true;
}

bool SameQuantization(const TensorQuantizationConfig& a, const TensorQuantizationConfig& b) {
  return a.dtype == b.dtype && a.scale == b.scale && a.offset == b.offset &&
         a.axis == b.axis;  // limits are read with the first of the pair
}

/// Step 1.
class PairRemover {
 public:
  PairRemover(Graph& graph, bool keep_weights) : graph_(graph), keep_weights_(keep_weights) {}

  FileQuantization Run() {
    std::vector<Node*> nodes;
    for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
    std::vector<Node*> quantizers;
    for (Node* node : nodes) {
      if (node->Is("QuantizeLinear")) quantizers.push_back(node);
    }
    for (Node* node : quantizers) RemovePair(*node);
    nodes.clear();
    for (const auto& node : graph_.nodes()) nodes.push_back(node.get());
    for (Node* node : nodes) {
      if (node->Is("DequantizeLinear")) RemoveConstant(*node);
    }
    // Names only now: replacing a graph output renames the value that takes its place.
    for (const auto& [value, config] : writes_) found_.writes.emplace(value->name, config);
    graph_.RemoveUnusedValues();
    return std::move(found_);
  }

 private:
  static DType QuantizedType(const Node& node) {
    const Tensor* zero_point = node.constant(2);
    if (zero_point) return zero_point->dtype();
    const int64_t wanted = node.attributes.Int("output_dtype", 0);
    return wanted == 0 ? DType::kUint8 : static_cast<DType>(wanted);
  }

  void Annotate(const Value* value, const TensorQuantizationConfig& config) {
    for (const Node* consumer : value->consumers) {
      for (size_t slot = 0; slot < consumer->inputs.size(); ++slot) {
        if (consumer->inputs[slot] == value) found_.reads[{consumer->name, slot}] = config;
      }
    }
  }

  /// Fewer codes than the type has, as to_qdq.cpp spells them.
  static bool ReadLimit(const Node& clip, TensorQuantizationConfig& config) {
    const Tensor* low = clip.constant(1);
    const Tensor* high = clip.constant(2);
    if (low == nullptr || high == nullptr || low->dtype() != config.dtype) return false;
    const int64_t lowest = low->AsInt64(0);
    const int64_t highest = high->AsInt64(0);
    int bits = 2;
    while (bits < 8 && (int64_t{1} << bits) - 1 < highest - lowest) ++bits;
    if (lowest >= highest || bits == 8) return false;
    config.quant_min = lowest;
    config.quant_max = highest;
    config.bits = bits;
    return true;
  }

  void RemovePair(Node& quantize) {
    Value* real = quantize.inputs[0];
    Value* integers = quantize.outputs[0];
    TensorQuantizationConfig config;
    const auto rank = static_cast<int64_t>(real->is_constant()
                                               ? static_cast<size_t>(real->constant.rank())
                                               : (real->type.shape ? real->type.shape->size() : 0));
    if (!ReadConfig(quantize, QuantizedType(quantize), rank, config)) return;
    if (real->is_constant()) {
      // Weights that are quantized inside the graph: their integers are constants, too.
      if (real->constant.dtype() != DType::kFloat32) return;
      const std::vector<const Tensor*> inputs = {&real->constant, quantize.constant(1),
                                                 quantize.constant(2)};
      graph_.MakeConstant(integers,
                          EvaluateNode(graph_, quantize, inputs, RequantizeMode::kUpward)[0]);
      return;
    }
    if (config.scale.size() != 1 || !IsByte(config.dtype) || graph_.IsOutput(integers)) return;
    Node* limit = graph_.SoleConsumer(integers);
    if (limit && limit->Is("Clip") && ReadLimit(*limit, config)) {
      integers = limit->outputs[0];
      if (graph_.IsOutput(integers)) return;
    } else {
      limit = nullptr;
    }
    std::vector<Node*> pairs = integers->consumers;
    for (const Node* pair : pairs) {
      TensorQuantizationConfig other;
      if (!pair->Is("DequantizeLinear") ||
          !ReadConfig(*pair, QuantizedType(quantize), rank, other) ||
          !SameQuantization(config, other)) {
        return;
      }
      const Value* result = pair->outputs[0];
      if (graph_.IsOutput(result) && (graph_.IsOutput(real) || graph_.IsInput(real))) return;
    }
    for (Node* pair : pairs) {
      Value* result = pair->outputs[0];
      Annotate(result, config);
      graph_.ReplaceAndKeepName(result, real);
      graph_.EraseNode(pair);
    }
    if (limit) graph_.EraseNode(limit);
    graph_.EraseNode(&quantize);
    writes_.emplace(real, config);  // the first pair is the producer's
  }

  void RemoveConstant(Node& node) {
    Value* integers = node.inputs[0];
    if (!integers->is_constant()) return;
    TensorQuantizationConfig config;
    if (!ReadConfig(node, integers->constant.dtype(), integers->constant.rank(), config)) return;
    if (config.scale.size() > 1 &&
        (config.axis >= integers->constant.rank() ||
         integers->constant.dim(config.axis) != static_cast<int64_t>(config.scale.size()))) {
      return;
    }
    config.baked = Unpacked(integers->constant);
    Value* result = node.outputs[0];
    Annotate(result, config);
    // Operators that stay integer never look at the floats, which are four times as large.
    const auto is_weight = [result](const Node* reader) {
      return reader->input(1) == result && reader->input(0) != result &&
             reader->input(2) != result &&
             (reader->Is("Conv") || reader->Is("Gemm") || reader->Is("MatMul"));
    };
    const bool leave_out =
        !keep_weights_ && IsByte(config.dtype) && !graph_.IsOutput(result) &&
        std::all_of(result->consumers.begin(), result->consumers.end(), is_weight);
    graph_.MakeConstant(result,
                        leave_out ? Tensor::Unowned(DType::kFloat32, config.baked.shape(), nullptr)
                                  : DequantizeParameter(config.baked, config));
  }

  Graph& graph_;
  bool keep_weights_;
  FileQuantization found_;
  std::map<const Value*, TensorQuantizationConfig> writes_;
};

/// Step 2.
class RecordBuilder {
 public:
  RecordBuilder(const Graph& graph, FileQuantization& file)
      : graph_(graph), file_(file), soi_(ShapeOrIndexValues(graph)) {}

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
  OperatorQuantization& Op(const Node& node) { return record_.operators.at(node.name); }

  const TensorQuantizationConfig* Read(const Node& node, size_t slot) const {
    const auto found = file_.reads.find({node.name, slot});
    return found == file_.reads.end() ? nullptr : &found->second;
  }

  /// A passive operator between DQ and float keeps the integers: its output has the same format.
  void Passthrough(const Node& node) {
    const TensorQuantizationConfig* input = Read(node, 0);
    const QuantRule rule = RuleOf(node);
    if (input == nullptr || rule != QuantRule::kPassive || WhyFloat(graph_, node, rule, soi_)) {
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

  bool GoodWeights(const Node& node, const OperatorQuantization& op) const {
    const TensorQuantizationConfig* config = Read(node, 1);
    if (config == nullptr || config->baked.empty() || !IsByte(config->dtype)) return false;
    return config->scale.size() == 1 || config->axis == WeightAxis(node, op.rule);
  }

  bool InTable(const Node& node, const OperatorQuantization& op) const {
    if (!op.table.empty()) return true;
    return !op.absorbed_by.empty() && record_.Find(op.absorbed_by)->activation != node.name;
  }

  /// Whether the file gives integers to everything that the node reads and writes.
  bool IsSurrounded(const Node& node) {
    const OperatorQuantization& op = Op(node);
    const int weight = WeightSlot(node, op.rule);
    if (weight >= 0 && !GoodWeights(node, op)) return false;
    bool any_data = false;
    for (size_t slot = 0; slot < node.inputs.size(); ++slot) {
      const Value* value = node.inputs[slot];
      const auto index = static_cast<int>(slot);
      if (value == nullptr || soi_.contains(value) || index == weight) continue;
      if (weight >= 0 && index == BiasSlot(node, op.rule)) continue;
      if (op.rule == QuantRule::kPassive && slot > 0) continue;
      const TensorQuantizationConfig* config = Read(node, slot);
      if (value->is_constant()) {
        const bool fits =
            config && !config->baked.empty() && IsByte(config->dtype) && config->scale.size() == 1;
        if (!fits && !InTable(node, op) && op.op_type != "Clip") return false;
        continue;
      }
      any_data = true;
      if (!IsInside(record_, value) && config == nullptr) return false;
    }
    for (const Value* output : node.outputs) {
      if (output && IsMaterialized(record_, output) && !file_.writes.contains(output->name)) {
        return false;
      }
    }
    return any_data;
  }

  /// Finds fusions among the operators that are left; true when some had to go.
  bool Settle() {
    for (auto& [name, op] : record_.operators) {
      op.float_output = false;
      op.activation.clear();
      op.absorbed_by.clear();
      op.table.clear();
      op.table_input.clear();
    }
    FindFusions(graph_, record_, barriers_);
    for (const auto& node : graph_.nodes()) {
      OperatorQuantization& op = Op(*node);
      op.float_output = WeightSlot(*node, op.rule) >= 0 &&
                        IsMaterialized(record_, node->outputs[0]) &&
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
    const std::vector<float>& input_scale = Read(node, 0)->scale;
    const TensorQuantizationConfig& weights = *Read(node, 1);
    const WeightMatrix view = ViewWeights(node, op.rule);
    TensorQuantizationConfig config;
    config.bits = 32;
    config.dtype = DType::kInt32;
    config.quant_min = StorageMin(DType::kInt32);
    config.quant_max = StorageMax(DType::kInt32);
    config.axis = 0;
    config.state = QuantizationState::kPassiveInit;
    BakeBias(ReadBias(node.constant(slot), view.rows), input_scale, weights, config);
    const TensorQuantizationConfig* file = Read(node, slot);
    if (file && file->dtype == DType::kInt32 && !config.baked.empty() &&
        file->baked.count() == view.rows && SameScales(file->scale, config.scale)) {
      config.baked = file->baked.Reshaped({view.rows});  // exact, where floats are not
    }
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
    return op.quantized && node.Is("Pad") && slot == 2 && node.constant(2) &&
           node.constant(2)->dtype() == DType::kFloat32;
  }

  int MakePadValue(const Node& node, size_t slot) {
    TensorQuantizationConfig config = *Read(node, 0);
    config.baked = QuantizeParameter(*node.constant(slot), config);
    return AddConfig(std::move(config), node, false, slot, node.input(slot),
                     QuantizationState::kPassiveBaked);
  }

  /// Dominators of the slots that only exist inside of a fused operator.
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

namespace {

/// Pairs between two float operators (a Softmax and the graph's output) are no operator's integers,
/// but they round all the same: they go back into the graph.
void RestoreFloatPairs(QuantizedModel& model,
                       const std::map<std::string, TensorQuantizationConfig>& writes) {
  Graph& graph = model.float_graph;
  const auto is_quantized = [&model](const Node* node) {
    const OperatorQuantization* found = model.record.Find(node->name);
    return found && (found->quantized || !found->absorbed_by.empty());
  };
  for (const auto& [name, config] : writes) {
    Value* value = graph.FindValue(name);
    if (value == nullptr || value->producer == nullptr || is_quantized(value->producer)) continue;
    const bool read_as_float = std::any_of(value->consumers.begin(), value->consumers.end(),
                                           [&](const Node* node) { return !is_quantized(node); });
    if (!read_as_float && !graph.IsOutput(value)) continue;
    Tensor offset(config.dtype, {});
    *static_cast<uint8_t*>(offset.raw()) = static_cast<uint8_t>(config.offset[0]);
    Value* scale = graph.AddConstant(name + "_scale", Tensor::Scalar(config.scale[0]));
    Value* zero_point = graph.AddConstant(name + "_zero_point", std::move(offset));
    ValueType integer_type = value->type;
    integer_type.dtype = config.dtype;
    Value* rounded = graph.AddValue(name + "_rounded", value->type);
    graph.ReplaceAndKeepName(value, rounded);
    Value* integers = graph.AddOp("QuantizeLinear", "", {value, scale, zero_point},
                                  name + "_integers", integer_type);
    graph.AddNode("DequantizeLinear", "", {integers, scale, zero_point}, {rounded});
  }
  graph.SortTopologically();
}

/// Only dtype and shape: stands for values that nobody reads.
bool IsPlaceholder(const Tensor& tensor) { return !tensor.empty() && tensor.raw() == nullptr; }

/// Operators that turned out to stay float need their weights after all.
void RestoreFloatWeights(QuantizedModel& model,
                         const std::map<SlotKey, TensorQuantizationConfig>& reads) {
  for (const auto& node : model.float_graph.nodes()) {
    Value* value = node->input(1);
    if (value == nullptr || !IsPlaceholder(value->constant)) continue;
    const OperatorQuantization* found = model.record.Find(node->name);
    if (found && found->quantized) continue;
    const TensorQuantizationConfig& config = reads.at({node->name, 1});
    value->constant = DequantizeParameter(config.baked, config);
  }
}

}  // namespace

std::optional<QuantizedModel> FromQdq(const Graph& source, bool keep_weights) {
  const bool any = std::any_of(source.nodes().begin(), source.nodes().end(),
                               [](const auto& node) { return node->Is("DequantizeLinear"); });
  if (!any) return std::nullopt;
  Graph graph = source.Clone();
  FileQuantization file = PairRemover(graph, keep_weights).Run();
  if (file.reads.empty() && file.writes.empty()) return std::nullopt;
  graph.SortTopologically();
  QuantizedModel model{PrepareFloatGraph(graph, false), {}};
  const auto writes = file.writes;  // of the file's own pairs only
  model.record = RecordBuilder(model.float_graph, file).Run();
  RestoreFloatWeights(model, file.reads);
  RestoreFloatPairs(model, writes);
  return model;
}

}  // namespace requant

// Reads the quantization of a file with Q/DQ nodes: file/remove_pairs.cpp removes the nodes,
// file/build_record.cpp finds the integer operators. Operators that stay float get their pairs and
// weights back here.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "ops/quantized/wide.h"
#include "quant/file/file_quantization.h"
#include "quant/graph/prepare.h"
#include "quant/grid/affine.h"
#include "quant/quantizer.h"

namespace requant {
namespace {

/// Inserts a pair: value -> Q -> DQ -> `rounded`.
void WritePair(Graph& graph, Value* value, const TensorQuantizationConfig& config, Value* rounded) {
  const std::string& name = rounded->name;
  const auto code = [&](const char* what, int64_t number) {
    Tensor tensor(config.dtype, {});
    StoreCode(tensor.raw(), config.dtype, 0, static_cast<int32_t>(number));
    return graph.AddConstant(name + what, std::move(tensor));
  };
  Value* scale = graph.AddConstant(name + "_scale", Tensor::Scalar(config.scale[0]));
  Value* zero_point = code("_zero_point", config.offset[0]);
  ValueType type = value->type;
  type.dtype = config.dtype;
  Value* integers =
      graph.AddOp("QuantizeLinear", "", {value, scale, zero_point}, name + "_q", type);
  // Integers of four bits are stored in bytes.
  if (config.quant_max - config.quant_min < CodeMax(config.dtype) - CodeMin(config.dtype)) {
    integers = graph.AddOp(
        "Clip", "", {integers, code("_low", config.quant_min), code("_high", config.quant_max)},
        name + "_q", type);
  }
  graph.AddNode("DequantizeLinear", "", {integers, scale, zero_point}, {rounded});
}

/// Whether the operator reads the value on another grid than that of `config`.
bool ReadsOtherwise(const QuantizationRecord& record, const Node& node, const Value* value,
                    const TensorQuantizationConfig& config) {
  const std::vector<int>& slots = record.operators.at(node.name).inputs;
  for (size_t slot = 0; slot < slots.size(); ++slot) {
    if (node.input(slot) != value || slots[slot] < 0) continue;
    const TensorQuantizationConfig& own = record.Root(slots[slot]);
    if (!own.scale.empty() && !SameCodes(own, config)) return true;
  }
  return false;
}

/// Puts pairs back into the graph that round values without belonging to an integer operator: pairs
/// between two float operators (a Softmax and the graph's output), and pairs of floats that a
/// second pair rounds again for their readers.
void RestoreFloatPairs(QuantizedModel& model,
                       const std::map<SlotKey, TensorQuantizationConfig>& reads,
                       const std::map<std::string, TensorQuantizationConfig>& writes) {
  Graph& graph = model.float_graph;
  const auto is_quantized = [&model](const Node* node) {
    const OperatorQuantization* found = model.record.Find(node->name);
    return found && (found->quantized || !found->absorbed_by.empty());
  };
  for (const auto& [key, config] : reads) {
    Node* node = graph.FindNode(key.first);
    if (node == nullptr || is_quantized(node)) continue;
    Value* value = node->input(key.second);
    if (value == nullptr || value->is_constant()) continue;
    const auto written = writes.find(value->name);
    if (written == writes.end() || SameCodes(written->second, config)) continue;
    Value* rounded = graph.AddValue(value->name + "_again", value->type);
    WritePair(graph, value, config, rounded);
    graph.SetInput(node, key.second, rounded);
  }
  for (const auto& [name, config] : writes) {
    Value* value = graph.FindValue(name);
    if (value == nullptr || value->is_constant()) continue;
    if (value->producer && is_quantized(value->producer)) continue;
    const auto reads_rounded = [&, &config = config](const Node* node) {
      return !is_quantized(node) || ReadsOtherwise(model.record, *node, value, config);
    };
    const bool read = std::any_of(value->consumers.begin(), value->consumers.end(), reads_rounded);
    if (!read && !(value->producer && graph.IsOutput(value))) continue;
    Value* rounded = graph.AddValue(name + "_rounded", value->type);
    if (value->producer) {
      graph.ReplaceAndKeepName(value, rounded);
      for (auto& [node, op] : model.record.operators) {
        if (op.table_input == name) op.table_input = rounded->name;
      }
    } else {
      // Only the readers of the rounded values change: a graph input keeps the others.
      const std::vector<Node*> readers = value->consumers;
      for (Node* reader : readers) {
        if (!reads_rounded(reader)) continue;
        for (size_t slot = 0; slot < reader->inputs.size(); ++slot) {
          if (reader->inputs[slot] == value) graph.SetInput(reader, slot, rounded);
        }
        // All operators of one table read its input alike (IsOneTable, build_record.cpp).
        for (auto& [node, op] : model.record.operators) {
          const bool member =
              std::find(op.table.begin(), op.table.end(), reader->name) != op.table.end();
          if (member && op.table_input == name) op.table_input = rounded->name;
        }
      }
    }
    WritePair(graph, value, config, rounded);
  }
  graph.SortTopologically();
}

/// Whether the tensor has only a dtype and a shape, as those of values that nobody reads.
bool IsPlaceholder(const Tensor& tensor) { return !tensor.empty() && tensor.raw() == nullptr; }

/// Loads the weights of the operators that turned out to stay float.
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
                               [](const auto& node) { return node->Is(Op::kDequantizeLinear); });
  if (!any) return std::nullopt;
  Graph graph = source.Clone();
  FileQuantization file = RemovePairs(graph, keep_weights);
  if (file.reads.empty() && file.writes.empty()) return std::nullopt;
  graph.SortTopologically();
  QuantizedModel model{FloatModel(std::move(graph)).Release(), {}};
  const auto writes = file.writes;  // the pairs of the file itself only
  model.record = BuildRecord(model.float_graph, file);
  RestoreFloatWeights(model, file.reads);
  RestoreFloatPairs(model, file.reads, writes);
  return model;
}

}  // namespace requant

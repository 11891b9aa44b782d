// Reads the quantization that a file's Q/DQ nodes spell: file/remove_pairs.cpp takes the nodes out,
// file/build_record.cpp finds what is integer. What is not gets its pairs and weights back here.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "quant/affine.h"
#include "quant/file/file_quantization.h"
#include "quant/prepare.h"
#include "quant/quantizer.h"

namespace requant {
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
    if (value == nullptr || value->is_constant()) continue;
    if (value->producer && is_quantized(value->producer)) continue;
    const bool read_as_float = std::any_of(value->consumers.begin(), value->consumers.end(),
                                           [&](const Node* node) { return !is_quantized(node); });
    if (!read_as_float && !(value->producer && graph.IsOutput(value))) continue;
    const auto byte = [&graph, &name = name, &config = config](const char* what, int32_t number) {
      Tensor tensor(config.dtype, {});
      *static_cast<uint8_t*>(tensor.raw()) = static_cast<uint8_t>(number);
      return graph.AddConstant(name + what, std::move(tensor));
    };
    Value* scale = graph.AddConstant(name + "_scale", Tensor::Scalar(config.scale[0]));
    Value* zero_point = byte("_zero_point", config.offset[0]);
    ValueType integer_type = value->type;
    integer_type.dtype = config.dtype;
    Value* rounded = graph.AddValue(name + "_rounded", value->type);
    if (value->producer) {
      graph.ReplaceAndKeepName(value, rounded);
    } else {
      // Of a graph input only what stays float reads the rounded values.
      const std::vector<Node*> readers = value->consumers;
      for (Node* reader : readers) {
        for (size_t slot = 0; slot < reader->inputs.size() && !is_quantized(reader); ++slot) {
          if (reader->inputs[slot] == value) graph.SetInput(reader, slot, rounded);
        }
      }
    }
    Value* integers = graph.AddOp("QuantizeLinear", "", {value, scale, zero_point},
                                  name + "_integers", integer_type);
    if (config.quant_max - config.quant_min < 255) {  // four bits are in bytes here
      integers = graph.AddOp(
          "Clip", "", {integers, byte("_low", config.quant_min), byte("_high", config.quant_max)},
          name + "_limited", integer_type);
    }
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
  FileQuantization file = RemovePairs(graph, keep_weights);
  if (file.reads.empty() && file.writes.empty()) return std::nullopt;
  graph.SortTopologically();
  QuantizedModel model{PrepareFloatGraph(graph), {}};
  const auto writes = file.writes;  // of the file's own pairs only
  model.record = BuildRecord(model.float_graph, file);
  RestoreFloatWeights(model, file.reads);
  RestoreFloatPairs(model, writes);
  return model;
}

}  // namespace requant

// Writes the integer graph in operators that ONNX Runtime has. The file's metadata says which codes
// of their bytes the parameters use, as in Q/DQ files.
#include <algorithm>
#include <set>
#include <string>

#include "base/str_cat.h"
#include "ops/quantized/qonnx.h"
#include "quant/file/grid_writer.h"
#include "quant/file/spell_pairs.h"
#include "quant/graph/prepare.h"
#include "quant/lower/lowering.h"
#include "quant/quantizer.h"

namespace requant {
namespace {

/// Operators whose data and result have one type, with the position of their data inputs: the
/// first, or from slot 2 on, each followed by its scale and zero point.
struct OneType {
  const char* op;
  size_t first, inputs;
};
constexpr size_t kAll = SIZE_MAX;
constexpr OneType kOneType[] = {
    {"QLinearConv", 0, 1},      {"QGemm", 0, 1},
    {"QLinearMatMul", 0, 1},    {"QLinearAdd", 0, 2},
    {"QLinearMul", 0, 2},       {"QLinearAveragePool", 0, 1},
    {"QLinearConcat", 2, kAll}, {"QLinearGlobalAveragePool", 0, 1},
};

/// Converts int8 x to uint8 x + 128 or vice versa, by a DequantizeLinear and a QuantizeLinear of
/// the same scale whose zero points differ by 128.
void ReadAs(Graph& graph, Node& node, size_t slot, DType dtype) {
  Value* integers = node.inputs[slot];
  Value* scale = node.inputs[slot + 1];
  Value* zero_point = node.inputs[slot + 2];
  const std::string& name = integers->name;
  Tensor moved(dtype, zero_point->constant.shape());
  for (int64_t i = 0; i < moved.count(); ++i) {
    const uint32_t bits = static_cast<const uint8_t*>(zero_point->constant.raw())[i];
    static_cast<uint8_t*>(moved.raw())[i] = static_cast<uint8_t>(bits ^ 0x80U);
  }
  ValueType type{DType::kFloat32, integers->is_constant() ? ToSymbolic(integers->constant.shape())
                                                          : integers->type.shape};
  Value* real = graph.AddOp("DequantizeLinear", "", {integers, scale, zero_point}, name + "_real",
                            type, {}, name + "_dequantize");
  type.dtype = dtype;
  Value* shifted = graph.AddConstant(name + "_shifted_zero_point", std::move(moved));
  graph.SetInput(&node, slot,
                 graph.AddOp("QuantizeLinear", "", {real, scale, shifted}, name + "_shifted", type,
                             {}, name + "_shift"));
  graph.SetInput(&node, slot + 2, shifted);
}

/// Converts operands where the options made the data of an operator int8 and its result uint8.
void UseOneType(Graph& graph) {
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  for (Node* node : nodes) {
    const auto* row = std::find_if(std::begin(kOneType), std::end(kOneType),
                                   [node](const OneType& one) { return node->op_type == one.op; });
    if (row == std::end(kOneType)) continue;
    const DType dtype = node->outputs[0]->type.dtype;
    for (size_t i = 0; i < row->inputs && row->first + 3 * i + 2 < node->inputs.size(); ++i) {
      const size_t slot = row->first + 3 * i;
      const Value* data = node->inputs[slot];
      const DType own = data->is_constant() ? data->constant.dtype() : data->type.dtype;
      if (IsByte(own) && own != dtype) ReadAs(graph, *node, slot, dtype);
    }
  }
  graph.SortTopologically();
}

/// Stores the uint8 weights of operators on int8 data as int8, which is all that ONNX Runtime
/// multiplies int8 by: codes and zero points are 128 lower. Returns the weights' names.
std::set<std::string> UseSignedWeights(Graph& graph) {
  constexpr size_t kWeights = 3, kZeroPoint = 5;
  std::set<std::string> moved;
  for (const auto& node : graph.nodes()) {
    const bool product = node->op_type == "QLinearConv" || node->op_type == "QGemm" ||
                         node->op_type == "QLinearMatMul";
    if (!product || node->outputs[0]->type.dtype != DType::kInt8) continue;
    const Value* weights = node->input(kWeights);
    if (!weights->is_constant() || weights->constant.dtype() != DType::kUint8) continue;
    const std::string name = weights->name;
    for (const size_t slot : {kWeights, kZeroPoint}) {
      const Value* from = node->input(slot);
      Tensor bytes(DType::kInt8, from->constant.shape());
      for (int64_t i = 0; i < bytes.count(); ++i) {
        bytes.data<int8_t>()[i] = static_cast<int8_t>(from->constant.AsInt64(i) - 128);
      }
      const std::string own = from->name;
      if (slot == kWeights) graph.RenameValue(node->inputs[slot], own + "_unsigned");
      graph.SetInput(node.get(), slot, graph.AddConstant(own, std::move(bytes)));
    }
    moved.insert(name);
  }
  graph.RemoveUnusedValues();
  return moved;
}

}  // namespace

Graph ToQOperator(const QuantizedModel& model) {
  RefuseSimulated(model.float_graph, model.record, "integer operators");
  Graph graph =
      LowerToInteger(model, {.use_lut = false, .lower_wide = &Lowering::LowerSimulated}).Release();
  if (WritesWideCodes(graph)) RaiseOpset(graph, 21);
  SpellPairs(graph, "QLinearConvTranspose");  // our own operator
  UseOneType(graph);
  const std::set<std::string> moved = UseSignedWeights(graph);
  for (const TensorQuantizationConfig& config : model.record.configs) {
    if (config.baked.empty() || !IsByte(config.dtype)) continue;
    const int64_t shift = moved.contains(config.value + "_q") ? 128 : 0;
    graph.metadata[kCodesKey] += StrCat(config.value, CodesText(config, shift));
  }
  return graph;
}

}  // namespace requant

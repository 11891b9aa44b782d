#include <utility>

#include "ops/table.h"
#include "quant/file/spell_pairs.h"

namespace requant {
namespace {

/// Whether the node is a Q or DQ of an 8-bit type with one constant scale.
bool IsPlainPair(const Node* node, const char* op_type) {
  if (node == nullptr || !node->Is(op_type) || node->constant(1) == nullptr ||
      node->constant(1)->count() != 1 || node->constant(1)->dtype() != DType::kFloat32 ||
      node->constant(2) == nullptr) {
    return false;
  }
  const Value* integers = node->Is(Op::kQuantizeLinear) ? node->output() : node->input(0);
  return IsByte(integers->type.dtype);
}

/// The DequantizeLinear that makes the constant a ConvTranspose reads, or nullptr.
Node* ConstantPair(const Node& node, size_t slot) {
  const Value* value = node.input(slot);
  Node* pair = value ? value->producer : nullptr;
  const bool fits = pair && pair->Is(Op::kDequantizeLinear) && pair->constant(0) &&
                    pair->constant(1) && pair->constant(1)->dtype() == DType::kFloat32 &&
                    pair->constant(1)->rank() <= 1 && pair->attributes.Int("block_size", 0) == 0;
  return fits ? pair : nullptr;
}

/// Whether there is one scale, or one for each output channel (of a group, or of all groups).
bool FitsChannels(const Node& node, const Node& weights) {
  const int64_t count = weights.constant(1)->count();
  const Tensor& integers = *weights.constant(0);
  if (count == 1) return true;
  const int64_t axis = weights.attributes.Int("axis", 1);
  if (axis == 1 || axis == 1 - integers.rank()) return count == integers.dim(1);
  return (axis == 0 || axis == -integers.rank()) && integers.dim(1) == 1 &&
         count == node.attributes.Int("group", 1) && count == integers.dim(0);
}

/// Whether the bias has the scales of the products.
bool IsInProducts(const Node& bias, const Tensor& input_scale, const Tensor& weight_scales) {
  if (bias.constant(0)->dtype() != DType::kInt32 || bias.input(2) != nullptr) return false;
  const std::vector<float> own = bias.constant(1)->ToFloats();
  const std::vector<float> weights = weight_scales.ToFloats();
  const float input = input_scale.ToFloats()[0];
  const size_t channels = own.size() == 1 ? 1 : static_cast<size_t>(bias.constant(0)->count());
  if (own.size() != channels || (channels == 1 && weights.size() > 1)) return false;
  for (size_t i = 0; i < channels; ++i) {
    if (own[i] != weights[i % weights.size()] * input) return false;
  }
  return true;
}

bool Join(Graph& graph, Node* node) {
  const Value* x = node->input(0);
  Node* input = x ? x->producer : nullptr;
  Node* weights = ConstantPair(*node, 1);
  Node* bias = ConstantPair(*node, 2);
  Node* quantize = graph.SoleConsumer(node->output());
  if (!IsPlainPair(input, "DequantizeLinear") || !IsPlainPair(quantize, "QuantizeLinear") ||
      weights == nullptr || weights->constant(2) == nullptr ||
      !IsByte(weights->constant(0)->dtype()) || weights->constant(0)->rank() < 3 ||
      !FitsChannels(*node, *weights) ||
      (node->input(2) &&
       (bias == nullptr || !IsInProducts(*bias, *input->constant(1), *weights->constant(1))))) {
    return false;
  }
  std::vector<Value*> inputs = {input->inputs[0],    input->inputs[1],   input->inputs[2],
                                weights->inputs[0],  weights->inputs[1], weights->inputs[2],
                                quantize->inputs[1], quantize->inputs[2]};
  if (bias) inputs.push_back(bias->inputs[0]);
  Value* integers = quantize->outputs[0];
  Value* joined = graph.AddValue(integers->name, integers->type);
  AttributeMap attributes = node->attributes;
  const std::string name = node->name;
  graph.ReplaceAndKeepName(integers, joined);
  graph.EraseNode(quantize);
  graph.EraseNode(node);
  graph.AddNode("QLinearConvTranspose", kRequantDomain, std::move(inputs), {joined},
                std::move(attributes), name);
  graph.opsets[kRequantDomain] = 1;
  for (Node* pair : {input, weights, bias}) {
    if (pair && pair->output()->consumers.empty() && !graph.IsOutput(pair->output())) {
      graph.EraseNode(pair);
    }
  }
  return true;
}

}  // namespace

bool JoinPairs(Graph& graph) {
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) {
    if (node->Is(Op::kConvTranspose)) nodes.push_back(node.get());
  }
  bool changed = false;
  for (Node* node : nodes) changed = Join(graph, node) || changed;
  if (changed) {
    graph.SortTopologically();
    graph.RemoveUnusedValues();
  }
  return changed;
}

}  // namespace requant

#include "passes/shape/fold_node.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "base/error.h"
#include "ops/op.h"

namespace requant {
namespace {

/// Folding these would lose the quantization that the file asks for.
bool CarriesQuantization(const Node& node) {
  if (!node.domain.empty()) return true;
  if (node.Is(Op::kQuantizeLinear)) {
    const auto& readers = node.outputs[0]->consumers;
    return std::any_of(readers.begin(), readers.end(),
                       [](const Node* reader) { return reader->Is(Op::kDequantizeLinear); });
  }
  const OpDef* op = FindOp(node);
  return node.Is(Op::kDequantizeLinear) || (op && op->on_integers);
}

bool MayFold(const Graph& graph, const Node& node, const PassContext& context) {
  if (node.inputs.empty() || node.outputs.empty() || node.outputs[0] == nullptr) return false;
  if (CarriesQuantization(node) || IsRandom(node)) return false;
  size_t input_bytes = 0;
  for (const Value* input : node.inputs) {
    if (input == nullptr) continue;
    if (!input->is_constant()) return false;
    input_bytes += input->constant.bytes();
  }
  constexpr size_t kAlwaysFine = 1 << 20;
  const size_t limit = std::min(context.max_constant_bytes,
                                std::max(kAlwaysFine, input_bytes * context.max_constant_growth));
  // The graph's types may be outdated, since this walk has folded some operands.
  const std::vector<ValueType> types = InferNode(graph, node);
  for (size_t slot = 0; slot < node.outputs.size(); ++slot) {
    if (node.outputs[slot] == nullptr) continue;
    if (graph.IsOutput(node.outputs[slot])) return false;
    const ValueType& type = types[slot];
    // Files have no constant sequences, and no tensor keeps the strings of a result.
    if (static_cast<uint8_t>(type.dtype) >= kOptionalBit || type.dtype == DType::kString) {
      return false;
    }
    // A result of unknown size (NonZero, ...) selects from its operand, and has at most 8 bytes for
    // each element of it.
    const bool fits =
        type.IsStatic()
            ? DTypeBytes(type.dtype, static_cast<size_t>(NumElements(type.StaticShape()))) <= limit
            : input_bytes <= limit / 8;
    if (!fits) return false;
  }
  return true;
}

}  // namespace

std::vector<Tensor> FoldedResults(const Graph& graph, const Node& node,
                                  const PassContext& context) {
  std::vector<const Tensor*> inputs;
  for (const Value* input : node.inputs) inputs.push_back(input ? &input->constant : nullptr);
  try {
    if (!MayFold(graph, node, context)) return {};
    return EvaluateNode(graph, node, inputs, RequantizeMode::kUpward);
  } catch (const Error& error) {
    // An operator that the references lack is reported when it has to run.
    if (error.code() == ErrorCode::kUnsupported) return {};
    throw;
  }
}

bool FoldNode(Graph& graph, Node* node, const PassContext& context) {
  const std::vector<Tensor> results = FoldedResults(graph, *node, context);
  if (results.empty()) return false;
  // MakeConstant erases the node, and its unused outputs, with its last used output.
  std::vector<std::pair<Value*, size_t>> used;
  for (size_t i = 0; i < node->outputs.size(); ++i) {
    Value* output = node->outputs[i];
    if (output && !output->consumers.empty()) used.emplace_back(output, i);
  }
  for (const auto& [output, slot] : used) graph.MakeConstant(output, results[slot]);
  return !used.empty();
}

}  // namespace requant

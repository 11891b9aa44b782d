#include "quant/graph/prepare.h"

namespace requant {
namespace {

/// Folds the factors of y = alpha * A * B + beta * C into constants: alpha into B, beta into C.
/// Without C, beta has no effect.
void FoldGemmFactors(Graph& graph, Node& node) {
  const auto scaled = [](const Tensor& tensor, float factor) {
    Tensor out = tensor.Clone();
    float* data = out.data<float>();
    for (int64_t i = 0; i < out.count(); ++i) data[i] *= factor;
    return out;
  };
  if (node.input(2) == nullptr) node.attributes.Remove("beta");
  for (const auto& [name, slot] : {std::pair{"alpha", size_t{1}}, std::pair{"beta", size_t{2}}}) {
    const float factor = node.attributes.Float(name, 1);
    const Tensor* constant = node.constant(slot);
    if (factor == 1 || constant == nullptr || constant->dtype() != DType::kFloat32) continue;
    graph.SetInput(&node, slot,
                   graph.AddConstant(node.inputs[slot]->name, scaled(*constant, factor)));
    node.attributes.Remove(name);
  }
}

/// Replaces GlobalMaxPool, which ONNX defines for floats only, by MaxPool, which takes bytes.
void SpellGlobalMaxPool(Node& node) {
  const auto& shape = node.inputs[0]->type.shape;
  if (!shape || shape->size() < 3) return;
  std::vector<int64_t> kernel;
  for (size_t i = 2; i < shape->size(); ++i) {
    if (!(*shape)[i].known()) return;
    kernel.push_back((*shape)[i].value);
  }
  node.Retype(Op::kMaxPool);
  node.attributes = {};
  node.attributes.Set("kernel_shape", std::move(kernel));
}

/// Replaces Dropout, which ONNX defines for floats only, by Identity, which takes bytes.
void SpellIdentity(Graph& graph, Node& node) {
  node.Retype(Op::kIdentity);
  node.attributes = {};
  while (node.inputs.size() > 1) graph.RemoveNodeInput(&node, 1);
  node.outputs.resize(1);
}

}  // namespace

void NormalizeForms(Graph& graph) {
  std::vector<Node*> nodes;
  for (const auto& node : graph.nodes()) nodes.push_back(node.get());
  for (Node* node : nodes) {
    if (node->Is(Op::kGemm)) FoldGemmFactors(graph, *node);
    if (node->Is(Op::kGlobalMaxPool)) SpellGlobalMaxPool(*node);
    if (node->Is(Op::kIdentity) || (node->Is(Op::kDropout) && node->output(1) == nullptr)) {
      const Value* x = node->inputs[0];
      if (graph.IsOutput(node->outputs[0]) && (x->producer == nullptr || graph.IsOutput(x))) {
        SpellIdentity(graph, *node);
      } else {
        graph.ReplaceAndKeepName(node->outputs[0], node->inputs[0]);
        graph.EraseNode(node);
      }
    }
  }
  graph.RemoveUnusedValues();
}

}  // namespace requant

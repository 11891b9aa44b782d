// DefuseAttention
//   Before: MultiHeadAttention(q, k, v, _, _, m) of com.microsoft, or Attention(q, k, v, m)
//   After:  q' = Transpose(Reshape(q), 0 2 1 3), k' = Transpose(Reshape(k), 0 2 3 1), v' like q'
//           Reshape(Transpose(MatMul(Softmax(s * MatMul(q', k') + m), v'), 0 2 1 3))
//   Conditions: q, k and v of [batch, tokens, heads * size]; float32; as many heads of k and v as
//   of q; nothing else: no past, no bias, no mask of keys, no causal order, no cap, one output; and
//   sizes with which the quantizer keeps attention apart (match/attention_size.h). The quantizer
//   applies it to attention that a file has as one operator.
// Formula: softmax(s * q k^T + m) v   (Vaswani et al., "Attention is all you need", 2017)
#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <utility>

#include "passes/match/attention_size.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// Attention that this pass writes out.
struct Plain {
  int64_t heads = 0;
  float scale = 0;
  Value* mask = nullptr;
};

bool HasOnly(const Node& node, std::initializer_list<size_t> slots) {
  for (size_t slot = 3; slot < node.inputs.size(); ++slot) {
    const bool allowed = std::find(slots.begin(), slots.end(), slot) != slots.end();
    if (node.inputs[slot] && !allowed) return false;
  }
  for (size_t slot = 1; slot < node.outputs.size(); ++slot) {
    if (node.outputs[slot]) return false;
  }
  return true;
}

std::optional<Plain> ReadPlain(const Node& node) {
  const AttributeMap& attributes = node.attributes;
  Plain out;
  size_t mask = 0;
  if (node.op_type == "MultiHeadAttention" && node.domain == kMicrosoftDomain) {
    mask = 5;
    if (attributes.Int("unidirectional", 0) != 0) return std::nullopt;
    out.heads = attributes.Int("num_heads", 0);
  } else if (node.Is(Op::kAttention)) {
    mask = 3;
    out.heads = attributes.Int("q_num_heads", 0);
    if (attributes.Int("kv_num_heads", 0) != out.heads || attributes.Int("is_causal", 0) != 0 ||
        attributes.Float("softcap", 0) != 0 || attributes.Has("softmax_precision")) {
      return std::nullopt;
    }
  } else {
    return std::nullopt;
  }
  if (!HasOnly(node, {mask})) return std::nullopt;
  out.mask = node.inputs.size() > mask ? node.inputs[mask] : nullptr;
  if (out.heads < 1 || (out.mask && (!IsFloat32(out.mask) || RankOf(out.mask) < 0))) {
    return std::nullopt;
  }
  for (size_t slot = 0; slot < 3; ++slot) {
    const Value* value = node.input(slot);
    if (value == nullptr || !IsFloat32(value) || RankOf(value) != 3) return std::nullopt;
  }
  const Dim& width = (*node.inputs[0]->type.shape)[2];
  if (!width.known() || width.value % out.heads != 0 || width.value == 0) return std::nullopt;
  const int64_t size = width.value / out.heads;
  out.scale = attributes.Float("scale", 0);
  if (out.scale == 0) out.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(size)));
  const Dim& queries = (*node.inputs[0]->type.shape)[1];
  const Dim& keys = (*node.inputs[1]->type.shape)[1];
  if (!GainsByIntegers(Dim(out.heads), queries, keys)) return std::nullopt;
  return out;
}

}  // namespace

bool DefuseAttention(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) {
    const std::optional<Plain> plain = ReadPlain(*node);
    if (!plain) return false;
    const ValueType any{DType::kFloat32, {}};
    Value* split = AddNear(g, node, Tensor::Vector<int64_t>({0, 0, plain->heads, -1}));
    const auto heads = [&](size_t slot, std::vector<int64_t> order) {
      AttributeMap attributes;
      attributes.Set("perm", std::move(order));
      Value* apart = AddNear(g, node, "Reshape", {node->inputs[slot], split}, any);
      return AddNear(g, node, "Transpose", {apart}, any, std::move(attributes));
    };
    Value* q = heads(0, {0, 2, 1, 3});
    Value* k = heads(1, {0, 2, 3, 1});
    Value* v = heads(2, {0, 2, 1, 3});
    Value* scores = AddNear(g, node, "MatMul", {q, k}, any);
    scores = AddNear(g, node, "Mul", {scores, AddNear(g, node, Tensor::Scalar(plain->scale))}, any);
    if (plain->mask) scores = AddNear(g, node, "Add", {scores, plain->mask}, any);
    AttributeMap along;
    along.Set("axis", int64_t{3});
    Value* shares = AddNear(g, node, "Softmax", {scores}, any, std::move(along));
    Value* mixed = AddNear(g, node, "MatMul", {shares, v}, any);
    AttributeMap back;
    back.Set("perm", std::vector<int64_t>{0, 2, 1, 3});
    Value* tokens = AddNear(g, node, "Transpose", {mixed}, any, std::move(back));
    Value* join = AddNear(g, node, Tensor::Vector<int64_t>({0, 0, -1}));
    TruncateInputs(g, node, 0);
    g.SetInput(node, 0, tokens);
    g.SetInput(node, 1, join);
    node->Retype("Reshape", "");
    node->attributes = {};
    return true;
  });
}

}  // namespace requant

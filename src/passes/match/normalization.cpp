// Normalizations that have no kernel of their own, written with operators that have one
//
// InstanceNormalization, GroupNormalization
//   Before: y = InstanceNormalization(x [N, C, ...], scale [C], bias [C])
//   After:  y = Add(Mul(Reshape(LayerNormalization(Reshape(x, [N, C, -1]), 1), x's shape), scale),
//           bias), the constants of shape [C, 1, ...]; for groups [N, G, -1]. Reshape moves
//           nothing.
//   Conditions: float32; constant scale and bias; all sizes but the batch known. Opset 17 on, where
//     ONNX has LayerNormalization.
//
// LpNormalization
//   Before: y = LpNormalization(x, axis, p = 2)
//   After:  y = Div(x, Sqrt(Clip(MatMul(Mul(x, x), ones), least))) along the last axis; along the
//           second of four, a 1 x 1 Conv of ones adds up the squares
//   Conditions: float32, opset 11 on, the axis' size known. Lines whose squares sum up to less than
//     `least` (1e-36) come out smaller; a line of zeros stays zero, as in onnxruntime.
//   Formula: x / sqrt(sum of x^2)   (onnx/docs/Operators.md, LpNormalization)
#include "passes/match/normalization.h"

#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr int64_t kMostOnes = 1 << 18;  // most elements of a constant that has only ones

Tensor Ones(const Shape& shape) {
  Tensor out(DType::kFloat32, shape);
  for (int64_t i = 0; i < out.count(); ++i) out.data<float>()[i] = 1;
  return out;
}

/// [c] stretched to `channels` elements, as [channels, 1, ...] for values of that rank.
std::optional<Tensor> OfChannels(const Tensor* tensor, int64_t channels, int64_t rank) {
  if (tensor == nullptr || tensor->dtype() != DType::kFloat32 || tensor->rank() != 1 ||
      tensor->count() == 0 || channels % tensor->count() != 0) {
    return {};
  }
  Shape shape(static_cast<size_t>(rank - 1), 1);
  shape[0] = channels;
  Tensor out(DType::kFloat32, shape);
  const int64_t each = channels / tensor->count();
  for (int64_t c = 0; c < channels; ++c) out.data<float>()[c] = tensor->data<float>()[c / each];
  return out;
}

bool GroupsToLayers(Graph& graph, Node* node) {
  const bool instance = node->Is(Op::kInstanceNormalization);
  if (!(instance || node->Is(Op::kGroupNormalization)) || graph.opset() < 17) return false;
  Value* x = node->input(0);
  const int64_t rank = RankOf(x);
  if (!IsFloat32(x) || rank < 3) return false;
  const SymbolicShape& shape = *x->type.shape;
  int64_t area = 1;
  for (size_t i = 1; i < shape.size(); ++i) {
    if (!shape[i].known() || shape[i].value == 0) return false;
    area *= i > 1 ? shape[i].value : 1;
  }
  const int64_t channels = shape[1].value;
  const int64_t groups = instance ? channels : node->attributes.Int("num_groups", 0);
  if (groups < 1 || channels % groups != 0 || channels / groups * area > kMostOnes) return false;
  const std::optional<Tensor> scale = OfChannels(node->constant(1), channels, rank);
  const std::optional<Tensor> bias = OfChannels(node->constant(2), channels, rank);
  if (!scale || !bias) return false;
  const int64_t length = channels / groups * area;
  std::vector<int64_t> back = {0};
  for (size_t i = 1; i < shape.size(); ++i) back.push_back(shape[i].value);
  const ValueType rows{DType::kFloat32, SymbolicShape{shape[0], groups, length}};
  const auto constant = [&](Tensor tensor) { return AddNear(graph, node, std::move(tensor)); };
  Value* flat = AddNear(graph, node, "Reshape",
                        {x, constant(Tensor::Vector<int64_t>({0, groups, -1}))}, rows);
  AttributeMap attributes;
  attributes.Set("axis", int64_t{-1});
  attributes.Set("epsilon", node->attributes.Float("epsilon", 1e-5F));
  Value* normal = AddNear(graph, node, "LayerNormalization", {flat, constant(Ones({length}))}, rows,
                          std::move(attributes));
  Value* whole = AddNear(graph, node, "Reshape", {normal, constant(Tensor::Vector(back))}, x->type);
  TruncateInputs(graph, node, 0);
  node->Retype(Op::kMul);
  node->attributes = {};
  graph.SetInput(node, 0, whole);
  graph.SetInput(node, 1, constant(*scale));
  AppendOp(graph, node, "Add", {constant(*bias)}, x->type);
  return true;
}

bool L2ToProducts(Graph& graph, Node* node) {
  if (!node->Is(Op::kLpNormalization) || node->attributes.Int("p", 2) != 2 || graph.opset() < 11) {
    return false;
  }
  Value* x = node->input(0);
  const int64_t rank = RankOf(x);
  if (!IsFloat32(x) || rank < 2) return false;
  int64_t axis = node->attributes.Int("axis", -1);
  if (axis < 0) axis += rank;
  const bool last = axis == rank - 1;
  if (!last && !(axis == 1 && rank == 4)) return false;
  const Dim& size = (*x->type.shape)[static_cast<size_t>(axis)];
  if (!size.known() || size.value == 0) return false;
  ValueType sums = x->type;
  (*sums.shape)[static_cast<size_t>(axis)] = 1;
  Value* squares = AddNear(graph, node, "Mul", {x, x}, x->type);
  Value* ones =
      AddNear(graph, node, Ones(last ? Shape{size.value, 1} : Shape{1, size.value, 1, 1}));
  Value* sum = AddNear(graph, node, last ? "MatMul" : "Conv", {squares, ones}, sums);
  Value* bounded =
      AddNear(graph, node, "Clip", {sum, AddNear(graph, node, Tensor::Scalar(1e-36F))}, sums);
  Value* norm = AddNear(graph, node, "Sqrt", {bounded}, sums);
  node->Retype(Op::kDiv);
  node->attributes = {};
  graph.SetInput(node, 1, norm);
  return true;
}

}  // namespace

bool SimplifyNormalization(Graph& graph, Node* node) {
  return node->outputs.size() == 1 && node->outputs[0] &&
         (GroupsToLayers(graph, node) || L2ToProducts(graph, node));
}

}  // namespace requant

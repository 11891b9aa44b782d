// SimplifyInference
//
// Identity, Dropout
//   Before: y = Identity(x), y = Dropout(x)             After: x
//   Conditions: Dropout not in training mode, its mask unused; output names stay what they are.
//
// BatchNormalization behind Conv, Gemm or MatMul
//   Before: y = BatchNormalization(Conv(x, W, b), gamma, beta, mean, var)
//   After:  y = Conv(x, W', b')
//   Conditions: constant float32 parameters; inference mode; nobody else reads the Conv's output.
//   Formula: s = gamma / sqrt(var + epsilon), W'[c] = s[c] * W[c], b'[c] = s[c] * (b[c] - mean[c])
//     + beta[c], in double (onnx/docs/Operators.md, BatchNormalization).
//
// BatchNormalization elsewhere
//   After:  y = Add(Mul(x, s), t) with s and t of shape [C, 1, ...], t = beta - mean * s
//   Conditions: as above, and the rank of x is known.
//
// InstanceNormalization, GroupNormalization, LpNormalization: see normalization.cpp.
#include <cmath>

#include "passes/fold/linear_fold.h"
#include "passes/match/normalization.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

bool RemoveIdentity(Graph& graph, Node* node) {
  return node->Is(Op::kIdentity) && node->input(0) && Bypass(graph, node, node->input(0));
}

bool RemoveDropout(Graph& graph, Node* node) {
  if (!node->Is(Op::kDropout) || node->input(0) == nullptr) return false;
  if (node->input(2)) {  // training_mode, from opset 12 on
    const std::optional<double> training = ScalarOf(node->input(2));
    if (!training || *training != 0) return false;
  }
  return Bypass(graph, node, node->input(0));
}

struct ChannelMap {
  std::vector<double> scale;
  std::vector<double> shift;
};

std::optional<ChannelMap> ReadBatchNormalization(const Graph& graph, const Node& node) {
  if (!node.Is(Op::kBatchNormalization) || node.attributes.Int("training_mode", 0) != 0 ||
      node.attributes.Int("spatial", 1) != 1) {
    return {};
  }
  for (size_t slot = 1; slot < node.outputs.size(); ++slot) {
    const Value* extra = node.outputs[slot];
    if (extra && (!extra->consumers.empty() || graph.IsOutput(extra))) return {};
  }
  const Tensor* parameters[4];
  for (size_t i = 0; i < 4; ++i) {
    parameters[i] = node.constant(i + 1);
    if (parameters[i] == nullptr || parameters[i]->dtype() != DType::kFloat32 ||
        parameters[i]->rank() != 1 || parameters[i]->count() != parameters[0]->count()) {
      return {};
    }
  }
  const double epsilon = double{node.attributes.Float("epsilon", 1e-5F)};
  ChannelMap out;
  for (int64_t c = 0; c < parameters[0]->count(); ++c) {
    const double scale =
        parameters[0]->AsDouble(c) / std::sqrt(parameters[3]->AsDouble(c) + epsilon);
    const double shift = parameters[1]->AsDouble(c) - parameters[2]->AsDouble(c) * scale;
    if (!std::isfinite(scale) || !std::isfinite(shift)) return {};
    out.scale.push_back(scale);
    out.shift.push_back(shift);
  }
  return out;
}

Tensor ChannelConstant(const std::vector<double>& values, int64_t rank) {
  Shape shape = {static_cast<int64_t>(values.size())};
  shape.resize(static_cast<size_t>(std::max<int64_t>(1, rank - 1)), 1);
  Tensor out(DType::kFloat32, shape);
  for (size_t i = 0; i < values.size(); ++i) out.data<float>()[i] = static_cast<float>(values[i]);
  return out;
}

bool FoldBatchNormalization(Graph& graph, Node* node) {
  const std::optional<ChannelMap> map = ReadBatchNormalization(graph, *node);
  if (!map) return false;
  Value* x = node->input(0);
  if (x == nullptr || node->outputs[0] == nullptr) return false;
  Node* linear = x->producer;
  // A MatMul of higher rank has its channels last, BatchNormalization has them second.
  const bool channels_match = linear && (!linear->Is(Op::kMatMul) || RankOf(x) == 2);
  if (channels_match && graph.SoleConsumer(x) == node &&
      FoldIntoLinear(graph, linear, map->scale, map->shift)) {
    return Bypass(graph, node, x);
  }
  const int64_t rank = RankOf(x);
  if (rank < 2) return false;
  for (size_t slot = 1; slot < node->outputs.size(); ++slot) {
    if (node->outputs[slot]) graph.SetOutput(node, slot, nullptr);
  }
  node->outputs.resize(1);
  TruncateInputs(graph, node, 1);
  node->Retype(Op::kMul);
  node->attributes = {};
  graph.SetInput(node, 1,
                 graph.AddConstant(node->name + "_scale", ChannelConstant(map->scale, rank)));
  Value* shift = graph.AddConstant(node->name + "_shift", ChannelConstant(map->shift, rank));
  AppendOp(graph, node, "Add", {shift}, x->type);
  return true;
}

}  // namespace

bool SimplifyInference(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) {
    return RemoveIdentity(g, node) || RemoveDropout(g, node) || FoldBatchNormalization(g, node) ||
           (kSimplifyNormalization.loaded() && kSimplifyNormalization(g, node));
  });
}

}  // namespace requant

// FlattenAtrousConv
// Before: the batch trick by which frameworks without dilation spell it: every b-th pixel of every
//   b-th row becomes an image of its own, a convolution runs on those, the pixels go back.
//   (a) as tf2onnx writes SpaceToBatchND and BatchToSpaceND, transposes merged, p = [1, 0, 2, 3]:
//       DepthToSpace(T(Conv(T(SpaceToDepth(x, b), p), W), p), b), images and channels changed over
//   (b) as reshapes: Reshape(T(Reshape(Conv(Reshape(T(Reshape(x, 6-D))), W), 6-D)))
// After:  Conv(x, W) with b times the dilation and b times the padding; (a) with both transposes
// Conditions: stride 1, explicit padding; the same blocks on both ways, images in the same order;
//   nobody else reads a value in between; (b) sizes known but for the batch.
// Formula: pixel b * i + r of the result is the sum over k of w[k] * x[b * (i + k * d - pad) + r],
//   which is a convolution of dilation b * d and padding b * pad (SpaceToBatchND's documentation in
//   TensorFlow, "atrous convolution").
#include <algorithm>
#include <array>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// The node of that operator that computes `value`, if only one node reads it.
Node* SoleProducer(const Graph& graph, const Value* value, const char* op) {
  Node* node = value ? value->producer : nullptr;
  return node && node->Is(op) && node->output() == value && node->input(0) &&
                 graph.SoleConsumer(value)
             ? node
             : nullptr;
}

bool SwapsImagesAndChannels(const Node* transpose) {
  return transpose && transpose->attributes.Ints("perm") == std::vector<int64_t>{1, 0, 2, 3};
}

bool IsPlainConv(const Node& node) {
  const auto is_one = [](int64_t stride) { return stride == 1; };
  const std::vector<int64_t> strides = node.attributes.Ints("strides");
  const std::string auto_pad = node.attributes.String("auto_pad", "NOTSET");
  return node.Is(Op::kConv) && node.constant(1) && node.constant(1)->rank() == 4 &&
         std::all_of(strides.begin(), strides.end(), is_one) &&
         (auto_pad == "NOTSET" || auto_pad == "VALID" || auto_pad.empty());
}

void Dilate(Node* conv, int64_t block_h, int64_t block_w) {
  const std::array<int64_t, 2> block = {block_h, block_w};
  std::vector<int64_t> dilations = conv->attributes.Ints("dilations", {1, 1});
  std::vector<int64_t> pads = conv->attributes.Ints("pads", {0, 0, 0, 0});
  if (conv->attributes.String("auto_pad", "NOTSET") == "VALID") pads = {0, 0, 0, 0};
  for (size_t i = 0; i < 2; ++i) dilations[i] *= block[i];
  for (size_t i = 0; i < 4; ++i) pads[i] *= block[i % 2];
  conv->attributes.Remove("auto_pad");
  conv->attributes.Set("dilations", std::move(dilations));
  conv->attributes.Set("pads", std::move(pads));
}

/// Forgets the type of a value between the two blocks, which was that of the small images.
void Forget(Graph& graph, Value* value) {
  value->type.shape.reset();
  graph.TypeChanged(value);
}

/// Rewrites form (a), starting at its last node.
bool FlattenDepth(Graph& graph, Node* gather) {
  if (!gather->Is(Op::kDepthToSpace) || gather->attributes.String("mode", "DCR") != "DCR") {
    return false;
  }
  Node* back = SoleProducer(graph, gather->input(0), "Transpose");
  Node* conv = SwapsImagesAndChannels(back) ? SoleProducer(graph, back->input(0), "Conv") : nullptr;
  if (conv == nullptr || !IsPlainConv(*conv)) return false;
  Node* there = SoleProducer(graph, conv->input(0), "Transpose");
  Node* scatter = SwapsImagesAndChannels(there)
                      ? SoleProducer(graph, there->input(0), "SpaceToDepth")
                      : nullptr;
  const int64_t block = gather->attributes.Int("blocksize", 0);
  if (scatter == nullptr || block < 1 || scatter->attributes.Int("blocksize", 0) != block ||
      !CanReplace(graph, gather->output(), back->output())) {
    return false;
  }
  Dilate(conv, block, block);
  graph.SetInput(there, 0, scatter->input(0));
  for (Value* value : {there->output(), conv->output(), back->output()}) Forget(graph, value);
  return Bypass(graph, gather, back->output());
}

/// A value of six dimensions [N, C, H, h, W, w]; the axes of its blocks.
struct Split {
  int64_t block_h = 0;
  int64_t block_w = 0;
};

/// The blocks if the shapes of `whole` (4-D) and `parts` (6-D) are those of rows and columns in
/// blocks.
std::optional<Split> BlocksOf(const Value* whole, const Value* parts) {
  if (RankOf(whole) != 4 || RankOf(parts) != 6) return {};
  const SymbolicShape& a = *whole->type.shape;
  const SymbolicShape& b = *parts->type.shape;
  for (size_t i = 1; i < 6; ++i) {
    if (!b[i].known()) return {};
  }
  const bool fits = a[1] == b[1] && a[2].known() && a[2].value == b[2].value * b[3].value &&
                    a[3].known() && a[3].value == b[4].value * b[5].value;
  if (!fits) return {};
  return Split{b[3].value, b[5].value};
}

/// Rewrites form (b), starting at its last node.
bool FlattenReshapes(Graph& graph, Node* last) {
  if (!last->Is(Op::kReshape)) return false;
  Node* back = SoleProducer(graph, last->input(0), "Transpose");
  Node* open = back ? SoleProducer(graph, back->input(0), "Reshape") : nullptr;
  Node* conv = open ? SoleProducer(graph, open->input(0), "Conv") : nullptr;
  if (conv == nullptr || !IsPlainConv(*conv)) return false;
  Node* close = SoleProducer(graph, conv->input(0), "Reshape");
  Node* there = close ? SoleProducer(graph, close->input(0), "Transpose") : nullptr;
  Node* first = there ? SoleProducer(graph, there->input(0), "Reshape") : nullptr;
  if (first == nullptr) return false;
  const std::optional<Split> in = BlocksOf(first->input(0), first->output());
  const std::optional<Split> out = BlocksOf(last->output(), back->output());
  if (!in || !out || in->block_h != out->block_h || in->block_w != out->block_w) return false;
  // The batch, and the row and the column within a block, come first, in any order. On the way back
  // each returns to its axis: [N, C, H, h, W, w] -> [?, ?, ?, C, H, W] -> [N, M, H, h, W, w].
  const std::vector<int64_t> perm = there->attributes.Ints("perm");
  if (perm.size() != 6 || perm[3] != 1 || perm[4] != 2 || perm[5] != 4) return false;
  std::vector<int64_t> inverse = {-1, 3, 4, -1, 5, -1};
  for (int64_t i = 0; i < 3; ++i) {
    inverse[static_cast<size_t>(perm[static_cast<size_t>(i)])] = i;
  }
  const auto in_front = [&](size_t axis) { return inverse[axis] >= 0 && inverse[axis] < 3; };
  if (!in_front(0) || !in_front(3) || !in_front(5) || back->attributes.Ints("perm") != inverse) {
    return false;
  }
  // The sizes merged into the batch and split off again must agree, so that images stay whole.
  const SymbolicShape* images =
      close->output()->type.shape ? &*close->output()->type.shape : nullptr;
  const SymbolicShape& parts = *first->output()->type.shape;
  if (images == nullptr || images->size() != 4 || !((*images)[1] == parts[1]) ||
      !((*images)[2] == parts[2]) || !((*images)[3] == parts[4])) {
    return false;
  }
  if (RankOf(conv->output()) != 4) return false;
  const SymbolicShape& results = *conv->output()->type.shape;
  const SymbolicShape& opened = *back->output()->type.shape;
  if (!(results[1] == opened[1]) || !(results[2] == opened[2]) || !(results[3] == opened[4]) ||
      !CanReplace(graph, last->output(), conv->output())) {
    return false;
  }
  Dilate(conv, in->block_h, in->block_w);
  graph.SetInput(conv, 0, first->input(0));
  Forget(graph, conv->output());
  return Bypass(graph, last, conv->output());
}

}  // namespace

bool FlattenAtrousConv(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) {
    return node->outputs.size() == 1 && node->outputs[0] && node->input(0) &&
           (FlattenDepth(g, node) || FlattenReshapes(g, node));
  });
}

}  // namespace requant

// FuseAttention
//
// Scaled dot product attention as exporters write it out (PyTorch and Hugging Face, with softmax
// or scaled_dot_product_attention; timm's packed projection; tf2onnx):
//   Before: y = Reshape(Transpose(MatMul(Softmax(MatMul(q, k) * s + m), v), 0 2 1 3), [B, S, H Dv])
//           q = Transpose(Reshape(x, [B, S, H, D]), 0 2 1 3)
//           k = Transpose(Reshape(z, [B, T, H, D]), 0 2 3 1)
//           v = Transpose(Reshape(w, [B, T, H, Dv]), 0 2 1 3)
//   After:  y = com.microsoft::MultiHeadAttention(x, z, w, _, _, m) {num_heads = H, scale = s}, or
//           from opset 23 on Attention(x, z, w, m) of ONNX
//   - k and v may be [B, H, T, D] themselves (a past that was joined).
//   - Packed projections: q, k, v = Gather(Transpose(Reshape(x, [B, S, 3, H, D]), 2 0 3 1 4), 0..2)
//     (or Squeeze of a Split) become slices of the columns of x.
//   - PyTorch's nn.MultiheadAttention has the tokens first, and three dimensions [B H, S, D]: with
//     q = Transpose(Reshape(x, [S, B H, D]), 1 0 2) it is an attention of one image and B H heads.
//   - Softmax may have a guard, Where(IsNaN(w), 0, w), which PyTorch writes for queries that see no
//     key.
//   - From opset 23 on, where the heads of q stay apart: y [B, H, S, Dv] = Attention(q, k, v, m).
//   - onnxscript turns k [B, H, T, D] in three dimensions:
//     Reshape(Transpose(Reshape(k, [B H, T, D]), 0 2 1), [B, H, D, T]).
//
// Rotary embedding leaves the heads of q apart. Plans, whose shapes are known, have an operator of
// their own for that (ops/attention/attention.h), which takes more forms:
//   Before: Transpose(MatMul(Softmax(..), v), 0 2 1 3), or the product alone
//   After:  ai.requant::HeadsAttention(q, k, v, m, _, _, _, sinks)
//   - Several heads of q share one of k and v, which Expand or Tile repeats (attention_parts.h) or
//     the product broadcasts. Attention of ONNX then reads the heads that were repeated, too.
//   - Scores are capped in front of the mask, c tanh(s / c) (Gemma 2).
//   - Rows have sinks (gpt-oss; attention_sinks.h).
//
// Conditions: float32; ranks and numbers of heads known; Softmax along the last axis; nobody else
//   reads the scores or the weights. s: any products and quotients with positive constants, of q, k
//   or the scores, in front of the mask. m: sums, which are added up, and Where(c, scores, f) with
//   f at most -1e35, for which 0 or f is added (float32: x + f = f for every |x| < 1e27); as wide
//   as there are keys, which a mask cut out for open lengths is (attention_mask.h).
// The quantizer keeps attention with few scores apart: it computes both products in integers.
// Formula: softmax(s * q k^T + m) v   (Vaswani et al., "Attention is all you need", 2017)
//   A query whose scores are all -infinity gives 0 as the operator and NaN written out without the
//   guard. (Behind the guard, rows of q and k that hold NaN themselves also give 0.)
#include <algorithm>
#include <optional>
#include <utility>

#include "passes/match/attention_mask.h"
#include "passes/match/attention_parts.h"
#include "passes/match/attention_scale.h"
#include "passes/match/attention_sinks.h"
#include "passes/match/attention_size.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// Whether a mask is as wide as the keys and no larger than the scores.
bool MaskFits(const Value* mask, const Value* scores) {
  const int64_t rank = RankOf(mask);
  const int64_t most = RankOf(scores);
  if (rank < 1 || rank > most) return false;
  for (int64_t i = 1; i <= rank; ++i) {
    const Dim& size = DimOf(mask, static_cast<size_t>(rank - i));
    if (!(size == DimOf(scores, static_cast<size_t>(most - i))) && (i == 1 || size != Dim(1))) {
      return false;
    }
  }
  return true;
}

/// Whether the node is Where(IsNaN(weights), 0, weights), or the same with Not.
bool IsGuard(const Node& where, const Value* weights) {
  if (!where.Is(Op::kWhere) || where.inputs.size() != 3) return false;
  const Node* condition = where.input(0)->producer;
  const bool inverted = condition && condition->Is(Op::kNot);
  const Node* test = inverted ? condition->input(0)->producer : condition;
  return test && test->Is(Op::kIsNaN) && test->input(0) == weights &&
         where.input(inverted ? 1 : 2) == weights && ScalarOf(where.input(inverted ? 2 : 1)) == 0.0;
}

/// The weights with 0 in place of NaN where the graph has such a guard and nothing else reads them;
/// otherwise the weights themselves.
Value* Guarded(const Graph& graph, Value* weights) {
  if (weights->consumers.size() != 2 || graph.IsOutput(weights)) return weights;
  for (const Node* node : weights->consumers) {
    if (IsGuard(*node, weights)) return node->output();
  }
  return weights;
}

class Rewriter {
 public:
  Rewriter(Graph& graph, Node* softmax, bool for_plan)
      : graph_(graph), near_(softmax), for_plan_(for_plan) {}

  bool Run() {
    sunk_ = for_plan_ ? ReadSinks(graph_, *near_) : std::nullopt;
    Value* weights = sunk_ ? sunk_->weights : Guarded(graph_, near_->output());
    scores_ = sunk_ ? sunk_->scores : near_->input(0);
    mix_ = graph_.SoleConsumer(weights);
    if (mix_ == nullptr || !mix_->Is(Op::kMatMul) || mix_->input(0) != weights) return false;
    const auto scores = ReadScores(graph_, scores_);
    if (!scores) return false;
    double scale = scores->scale;
    const int64_t rank = RankOf(scores_);
    if (RankOf(scores->product->output()) != rank) return false;
    const auto q = ReadHeads(scores->product->input(0), rank, false, &scale);
    const auto k = ReadHeads(scores->product->input(1), rank, true, &scale);
    const auto v = ReadHeads(mix_->input(1), rank, false, nullptr);
    if (!q || !k || !v || k->heads != v->heads || q->width != k->width) return false;
    const bool equal = q->heads == k->heads;
    if (!equal && (!for_plan_ || k->heads != 1)) return false;
    Value* plain = scores->product->output();
    const bool onnx = graph_.opset() >= 23;
    for (const Scores::Mask& mask : scores->masks) {
      const Value* shape = mask.condition ? mask.condition : mask.value;
      cut_out_ = mask.condition && IsCutOutFor(shape, plain);
      if ((!cut_out_ && !MaskFits(shape, plain)) || !IsFloat32(mask.value)) return false;
      if (onnx && !for_plan_ && RankOf(shape) < 2) return false;
    }
    // The result [B, S, H, Dv] is reshaped to columns.
    Node* back = graph_.SoleConsumer(mix_->output());
    Node* join = back && back->Is(Op::kTranspose) && HasPerm(*back, PermsOf(rank).heads)
                     ? graph_.SoleConsumer(back->output())
                     : nullptr;
    const bool plain_softmax = !sunk_ && scores->softcap == 0;
    const bool flat = equal && plain_softmax && q->is_flat() && join && JoinsHeads(*join, *v) &&
                      ((k->is_flat() && v->is_flat()) || !onnx);
    if (!flat && for_plan_ && FuseHeads({*q, *k, *v}, *scores, scale, back)) return true;
    if (!flat && (!onnx || rank == 3 || !equal || !plain_softmax)) return false;
    if (rank == 3 && (!k->is_flat() || !v->is_flat())) return false;
    Value* mask = MakeMask(*scores, plain, onnx);
    AttributeMap attributes;
    attributes.Set("scale", static_cast<float>(scale));
    if (!flat) {
      if (mix_->output()->type.shape == std::nullopt) return false;
      return Emit("Attention", "", {ByHead(*q), ByHead(*k), ByHead(*v), mask}, mix_,
                  std::move(attributes));
    }
    // Only MultiHeadAttention takes columns and heads together.
    const bool columns = k->is_flat() && v->is_flat();
    std::vector<Value*> inputs = {Columns(*q), columns ? Columns(*k) : ByHead(*k),
                                  columns ? Columns(*v) : ByHead(*v)};
    if (onnx) {
      attributes.Set("q_num_heads", q->heads);
      attributes.Set("kv_num_heads", k->heads);
      if (mask) inputs.push_back(mask);
    } else {
      attributes.Set("num_heads", q->heads);
      if (mask) inputs.insert(inputs.end(), {nullptr, nullptr, mask});
      graph_.opsets.try_emplace(kMicrosoftDomain, 1);
    }
    const size_t tokens = static_cast<size_t>(rank) - 2;
    const ValueType type{DType::kFloat32,
                         SymbolicShape{rank == 4 ? DimOf(mix_->output(), 0) : Dim(1),
                                       DimOf(mix_->output(), tokens), v->heads * v->width}};
    Value* y =
        graph_.AddOp(onnx ? "Attention" : "MultiHeadAttention", onnx ? "" : kMicrosoftDomain,
                     std::move(inputs), near_->name + "_attention", type, std::move(attributes));
    graph_.SetInput(join, 0, y);
    if (!CopiesNothing(*join, rank)) {
      const std::vector<int64_t> shape = join->output()->type.StaticShape();
      graph_.SetInput(join, 1, AddNear(graph_, near_, Tensor::Vector<int64_t>(shape)));
    }
    return true;
  }

 private:
  struct Operands {
    const Heads &q, &k, &v;
  };

  /// Makes HeadsAttention, which only plans have. `back` is the only reader of the result.
  bool FuseHeads(const Operands& operands, const Scores& scores, double scale, Node* back) {
    const Shape whole = ShapeOf(scores_);     // [B, H, S, T]
    const Shape y = ShapeOf(mix_->output());  // [B, H, S, Dv]
    if (whole.size() != 4 || y != Shape{whole[0], whole[1], whole[2], operands.v.width}) {
      return false;
    }
    Heads q = operands.q, k = operands.k, v = operands.v;
    const Repeated keys = ReadRepeated(k.by_head), values = ReadRepeated(v.by_head);
    if (keys.times == values.times) {
      k.by_head = keys.source;
      v.by_head = values.source;
      k.heads = v.heads = k.heads / keys.times;
    }
    // Nothing else may be broadcast than the heads of k and v.
    if (ShapeByHead(q) != Shape{whole[0], whole[1], whole[2], q.width} ||
        ShapeByHead(k) != Shape{whole[0], k.heads, whole[3], q.width} ||
        ShapeByHead(v) != Shape{whole[0], k.heads, whole[3], v.width} || whole[1] % k.heads != 0) {
      return false;
    }
    // Integer products read values of 8 bits.
    for (const Heads& heads : {q, k, v}) {
      const Value* value = heads.by_head ? heads.by_head : heads.by_token;
      if (value->producer && value->producer->Is(Op::kDequantizeLinear)) return false;
    }
    std::vector<Value*> inputs = {ByHead(q), ByHead(k), ByHead(v),
                                  MakeMask(scores, scores.product->output(), true)};
    if (sunk_) {
      inputs.resize(7);
      inputs.push_back(SinksOf(graph_, near_, sunk_->sinks));
    }
    AttributeMap attributes;
    attributes.Set("scale", static_cast<float>(scale));
    if (scores.softcap != 0) attributes.Set("softcap", static_cast<float>(scores.softcap));
    const bool by_token = back && back->Is(Op::kTranspose) && HasPerm(*back, PermsOf(4).heads);
    if (by_token) attributes.Set("by_token", int64_t{1});
    graph_.opsets.try_emplace(kRequantDomain, 1);
    return Emit("HeadsAttention", kRequantDomain, std::move(inputs), by_token ? back : mix_,
                std::move(attributes));
  }

  /// The shape if it is known, else an empty one.
  static Shape ShapeOf(const Value* value) {
    return value->type.IsStatic() ? value->type.StaticShape() : Shape{};
  }
  static Shape ShapeByHead(const Heads& heads) {
    Shape shape = ShapeOf(heads.by_head ? heads.by_head : heads.by_token);
    if (heads.by_head == nullptr && shape.size() == 4) std::swap(shape[1], shape[2]);
    return shape;
  }

  /// Whether the target of a Reshape copies no dimension that has changed.
  static bool CopiesNothing(const Node& join, int64_t rank) {
    const std::vector<int64_t> sizes = join.constant(1)->ToInts();
    const size_t same = rank == 3 ? 0 : std::min<size_t>(2, sizes.size());
    return std::find(sizes.begin() + static_cast<std::ptrdiff_t>(same), sizes.end(), 0) ==
           sizes.end();
  }

  /// Whether Reshape(x [B, S, H, Dv], target) gives the same for [B, S, H * Dv], or one of [S, H,
  /// Dv] for [1, S, H * Dv]; where the shape is known, the target may be replaced.
  static bool JoinsHeads(const Node& join, const Heads& v) {
    const Tensor* target = join.constant(1);
    if (!join.Is(Op::kReshape) || target == nullptr || join.attributes.Int("allowzero", 0) != 0) {
      return false;
    }
    const ValueType& type = join.output()->type;
    return CopiesNothing(join, v.by_token ? RankOf(v.by_token) : 4) ||
           (type.IsStatic() && NumElements(type.StaticShape()) > 0);
  }

  Value* Columns(const Heads& heads) {
    if (heads.flat == nullptr) {
      const ValueType type{DType::kFloat32, SymbolicShape{Dim(), Dim(), heads.heads * heads.width}};
      return AddNear(graph_, near_, "Reshape", {heads.source, AddNear(graph_, near_, heads.target)},
                     type);
    }
    if (heads.slice < 0) return heads.flat;
    const int64_t width = heads.heads * heads.width;
    ValueType type = heads.flat->type;
    type.shape->back() = width;
    const auto one = [&](int64_t value) {
      return AddNear(graph_, near_, Tensor::Vector<int64_t>({value}));
    };
    return AddNear(graph_, near_, "Slice",
                   {heads.flat, one(heads.slice * width), one((heads.slice + 1) * width), one(2)},
                   type);
  }

  Value* ByHead(const Heads& heads) {
    if (heads.by_head) return heads.by_head;
    const SymbolicShape& from = *heads.by_token->type.shape;
    AttributeMap attributes;
    attributes.Set("perm", std::vector<int64_t>{0, 2, 1, 3});
    return AddNear(graph_, near_, "Transpose", {heads.by_token},
                   {DType::kFloat32, SymbolicShape{from[0], from[2], from[1], from[3]}},
                   std::move(attributes));
  }

  /// Makes the sum of all masks; nullptr without any.
  Value* MakeMask(const Scores& scores, const Value* plain, bool onnx) {
    Value* sum = nullptr;
    for (const Scores::Mask& mask : scores.masks) {
      Value* value = mask.value;
      if (mask.condition) {
        Value* zero = AddNear(graph_, near_, Tensor::Scalar(0.0F));
        value = AddNear(
            graph_, near_, "Where",
            {mask.condition, mask.inverted ? mask.value : zero, mask.inverted ? zero : mask.value},
            {DType::kFloat32, mask.condition->type.shape});
      }
      sum = sum ? AddNear(graph_, near_, "Add", {sum, value}, {DType::kFloat32, {}}) : value;
    }
    // A plan reads a row for all queries as it is, and then nothing depends on their number.
    return sum && !for_plan_ ? Stretched(sum, plain, onnx ? 2 : 4) : sum;
  }

  /// Widens a mask: onnxruntime needs a row for every query, and four dimensions for
  /// MultiHeadAttention.
  Value* Stretched(Value* mask, const Value* scores, int64_t least_rank) {
    const int64_t rank = RankOf(mask);
    const auto row = static_cast<size_t>(RankOf(scores)) - 2;
    const Dim& queries = DimOf(scores, row);
    if (rank >= least_rank && (DimOf(mask, static_cast<size_t>(rank) - 2) == queries ||
                               (cut_out_ && mask->producer->Is(Op::kWhere)))) {
      return mask;
    }
    const ValueType type{DType::kFloat32,
                         SymbolicShape{Dim(), Dim(), queries, DimOf(scores, row + 1)}};
    if (queries.known()) {
      Value* shape = AddNear(graph_, near_, Tensor::Vector<int64_t>({1, 1, queries.value, 1}));
      return AddNear(graph_, near_, "Expand", {mask, shape}, type);
    }
    // Makes [1, 1, queries, 1] from the shape of q.
    const auto ints = [&](const std::vector<int64_t>& values) {
      return AddNear(graph_, near_, Tensor::Vector(values));
    };
    const auto list = [](int64_t count) { return ValueType{DType::kInt64, SymbolicShape{count}}; };
    Value* whole =
        AddNear(graph_, near_, "Shape", {scores->producer->input(0)}, list(RankOf(scores)));
    Value* rows =
        AddNear(graph_, near_, "Gather", {whole, ints({static_cast<int64_t>(row)})}, list(1));
    AttributeMap axis;
    axis.Set("axis", int64_t{0});
    Value* shape =
        AddNear(graph_, near_, "Concat", {ints({1, 1}), rows, ints({1})}, list(4), std::move(axis));
    return AddNear(graph_, near_, "Expand", {mask, shape}, type);
  }

  /// Turns the node `last` into the operator.
  bool Emit(const char* op, const char* domain, std::vector<Value*> inputs, Node* last,
            AttributeMap attributes) {
    while (!inputs.empty() && inputs.back() == nullptr) inputs.pop_back();
    TruncateInputs(graph_, last, 0);
    for (size_t i = 0; i < inputs.size(); ++i) graph_.SetInput(last, i, inputs[i]);
    last->Retype(op, domain);
    last->attributes = std::move(attributes);
    return true;
  }

  Graph& graph_;
  Node* near_;
  bool for_plan_;
  std::optional<SunkScores> sunk_;
  Value* scores_ = nullptr;  // masked, and without sinks
  Node* mix_ = nullptr;
  bool cut_out_ = false;  // whether the last mask was cut out for open lengths
};

/// Makes an Attention of ONNX read the heads that its keys and values repeat. Returns whether it
/// changed.
bool ShareHeads(Graph& graph, Node* node) {
  if (!node->Is(Op::kAttention) || node->input(4) || node->input(5) || node->output(1) ||
      node->output(2)) {
    return false;
  }
  const Repeated keys = ReadRepeated(node->input(1)), values = ReadRepeated(node->input(2));
  if (keys.source == node->input(1) || values.source == node->input(2) ||
      keys.times != values.times) {
    return false;
  }
  graph.SetInput(node, 1, keys.source);
  graph.SetInput(node, 2, values.source);
  return true;
}

bool IsLastSoftmax(const Graph& graph, const Node& node) {
  const int64_t rank = RankOf(node.input(0));
  if (!node.Is(Op::kSoftmax) || (rank != 3 && rank != 4) || !IsFloat32(node.input(0))) return false;
  const int64_t axis = node.attributes.Int("axis", graph.opset() < 13 ? 1 : -1);
  return axis == -1 || axis == rank - 1;
}

/// GainsByIntegers() of the scores that a Softmax reads.
bool StaysApart(const Value* scores) {
  const auto rank = static_cast<size_t>(RankOf(scores));
  return GainsByIntegers(DimOf(scores, rank - 3), DimOf(scores, rank - 2), DimOf(scores, rank - 1));
}

}  // namespace

bool FuseAttention(Graph& graph, PassContext& context) {
  return RewriteNodes(graph, [&](Graph& g, Node* node) {
    if (context.for_plan && ShareHeads(g, node)) return true;
    if (context.for_quantizer && MoveScoreScale(g, node)) return true;
    if (!IsLastSoftmax(g, *node) || (context.for_quantizer && StaysApart(node->input(0))))
      return false;
    return Rewriter(g, node, context.for_plan).Run();
  });
}

}  // namespace requant

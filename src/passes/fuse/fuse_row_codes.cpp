// FuseRowCodes
//
// Rows of floats that become codes while a model runs, each row with its own scale, as
// quantizeDynamic() and the reader of TFLite files write them:
//   Before: lo = Min(ReduceMin(x, last axis), 0), hi = Max(ReduceMax(x, last axis), 0)
//           s  = Max(Mul(Sub(hi, lo), 1 / 255), 1e-30)
//           z  = QuantizeLinear(Neg(Div(lo, s)), 1, 0)
//           q  = QuantizeLinear(Add(Round(Div(x, s)), float(z)), 1, 0)
//   After:  q, s, z = ai.requant::DynamicQuantizeRows(x)
//
// Their products:
//   Before: d = Sub(MatMulInteger(q, w), Mul(Cast(z), u)), or the product alone
//           y = Add(Mul(Mul(Cast(d), t), s), b), or without b
//   After:  y = ai.requant::MatMulIntegerRows(q, w, s, t, b, z, u)
//
// Conditions: w [K, N] constant and without zero points; u the sums of its columns; t and b
//   constant, numbers for all columns or one; s and z one for each row of q; nobody else reads what
//   is between. float(z) is a Cast or a DequantizeLinear by 1, and bounds may be Clip or Relu as
//   well.
// Formula: numeric/row_codes.h.
#include <limits>
#include <optional>

#include "numeric/row_codes.h"
#include "passes/match/clip.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

const Node* ProducerOf(const Value* value, std::string_view op, std::string_view domain = "") {
  const Node* node = value ? value->producer : nullptr;
  return node && node->Is(op, domain) ? node : nullptr;
}

/// The value that the node clamps to these bounds and no others; nullptr if it does not.
Value* Clamped(const Graph& graph, const Value* value, double low, double high) {
  const auto range = value && value->producer ? MatchClip(graph, *value->producer) : std::nullopt;
  const bool is_it = range && static_cast<float>(range->low) == static_cast<float>(low) &&
                     static_cast<float>(range->high) == static_cast<float>(high);
  return is_it ? range->x : nullptr;
}

/// Whether the value is that reduction of x along its last axis, which stays.
bool IsRowReduction(const Value* value, const char* op, const Value* x) {
  const Node* node = ProducerOf(value, op);
  if (node == nullptr || node->input(0) != x || node->attributes.Int("keepdims", 1) == 0) {
    return false;
  }
  std::vector<int64_t> axes = node->attributes.Ints("axes");
  if (node->constant(1)) axes = node->constant(1)->ToInts();
  return axes.size() == 1 && (axes[0] == -1 || axes[0] == RankOf(x) - 1);
}

/// x of QuantizeLinear(x, 1, 0) to uint8.
Value* RoundedToBytes(const Value* value) {
  const Node* node = ProducerOf(value, "QuantizeLinear");
  if (node == nullptr || value->type.dtype != DType::kUint8 || ScalarOf(node->input(1)) != 1.0 ||
      (node->input(2) && ScalarOf(node->input(2)) != 0.0)) {
    return nullptr;
  }
  return node->input(0);
}

/// The bytes of which a value is the floats.
Value* FloatsOf(Value* value) {
  Node* node = value ? value->producer : nullptr;
  if (node == nullptr || !IsFloat32(value)) return nullptr;
  if (node->Is(Op::kCast)) return node->input(0);
  const bool by_one = node->Is(Op::kDequantizeLinear) && ScalarOf(node->input(1)) == 1.0 &&
                      (!node->input(2) || ScalarOf(node->input(2)) == 0.0);
  return by_one ? node->input(0) : nullptr;
}

struct RowCodes {
  Value *x, *codes, *scales, *zeros;
};

/// Reads the codes of rows out of the operators in front of them.
std::optional<RowCodes> ReadRowCodes(const Graph& graph, Value* codes) {
  const double inf = std::numeric_limits<double>::infinity();
  const Node* moved = ProducerOf(RoundedToBytes(codes), "Add");
  if (moved == nullptr) return {};
  for (const size_t side : {size_t{0}, size_t{1}}) {
    const Node* round = ProducerOf(moved->input(side), "Round");
    const Node* steps = round ? ProducerOf(round->input(0), "Div") : nullptr;
    Value* zeros = FloatsOf(moved->input(1 - side));
    const Node* negative = ProducerOf(RoundedToBytes(zeros), "Neg");
    const Node* share = negative ? ProducerOf(negative->input(0), "Div") : nullptr;
    if (steps == nullptr || share == nullptr || share->input(1) != steps->input(1)) continue;
    Value* x = steps->input(0);
    Value* scales = steps->input(1);
    const Node* step = ProducerOf(Clamped(graph, scales, kLeastRowScale, inf), "Mul");
    if (step == nullptr || RankOf(x) < 1 || !IsFloat32(x)) continue;
    for (const size_t factor : {size_t{0}, size_t{1}}) {
      const auto number = ScalarOf(step->input(factor));
      const Node* range = ProducerOf(step->input(1 - factor), "Sub");
      if (!number || static_cast<float>(*number) != kRowShare || range == nullptr) continue;
      if (range->input(1) == share->input(0) &&
          IsRowReduction(Clamped(graph, range->input(0), 0, inf), "ReduceMax", x) &&
          IsRowReduction(Clamped(graph, range->input(1), -inf, 0), "ReduceMin", x)) {
        return RowCodes{x, codes, scales, zeros};
      }
    }
  }
  return {};
}

bool FuseCodes(Graph& graph, Node* node) {
  const auto rows =
      node->Is(Op::kQuantizeLinear) ? ReadRowCodes(graph, node->outputs[0]) : std::nullopt;
  if (!rows) return false;
  Value* const old[] = {rows->codes, rows->scales, rows->zeros};
  std::vector<Value*> made;
  for (Value* value : old) {
    if (graph.IsOutput(value)) return false;
    made.push_back(graph.AddValue(value->name + "_row", value->type));
  }
  graph.opsets.try_emplace(kRequantDomain, 1);
  graph.AddNode("DynamicQuantizeRows", kRequantDomain, {rows->x}, made, {}, node->name + "_rows");
  for (size_t i = 0; i < made.size(); ++i) graph.ReplaceAllUses(old[i], made[i]);
  return true;
}

/// Whether the value has one element for each row of `codes`: it was made with them, or it has
/// their shape with a last axis of 1.
bool IsOnePerRow(const Value* value, const Value* codes) {
  const Node* rows = ProducerOf(codes, "DynamicQuantizeRows", kRequantDomain);
  if (rows && value->producer == rows) return true;
  const int64_t rank = RankOf(codes);
  if (rank < 1 || RankOf(value) != rank) return false;
  for (size_t axis = 0; axis + 1 < static_cast<size_t>(rank); ++axis) {
    const Dim &a = (*value->type.shape)[axis], &b = (*codes->type.shape)[axis];
    if (a != b) return false;
  }
  return value->type.shape->back() == Dim(1);
}

/// Whether a constant has a number for each column of the rows of `like`, or one for all.
bool IsForColumns(const Value* value, DType dtype, const Value* like, int64_t columns) {
  if (value == nullptr || !value->is_constant() || value->constant.dtype() != dtype) return false;
  const Shape& shape = value->constant.shape();
  if (static_cast<int64_t>(shape.size()) > RankOf(like)) return false;
  const int64_t count = value->constant.count();
  return count == 1 || (count == columns && !shape.empty() && shape.back() == columns);
}

class ProductRewriter {
 public:
  ProductRewriter(Graph& graph, Node* product)
      : graph_(graph), product_(product), at_(product->outputs[0]) {}

  bool Run() {
    if (!product_->Is(Op::kMatMulInteger) || product_->input(2) || product_->input(3)) return false;
    Value* codes = product_->inputs[0];
    const Tensor* w = product_->constant(1);
    if (w == nullptr || w->rank() != 2 || RankOf(codes) < 1 || RankOf(at_) != RankOf(codes)) {
      return false;
    }
    const int64_t columns = w->dim(1);
    Value* zeros = nullptr;
    Value* sums = nullptr;
    if (const Node* less = Next(Op::kSub)) {
      zeros = less->inputs[0] == at_ ? ZerosOf(less->inputs[1], *w, sums) : nullptr;
      if (zeros == nullptr || !IsOnePerRow(zeros, codes)) return false;
      at_ = less->outputs[0];
    }
    const Node* cast = Next(Op::kCast);
    if (cast == nullptr || !IsFloat32(cast->outputs[0])) return false;
    at_ = cast->outputs[0];
    Value* column_scales = Operand(Op::kMul);
    if (!IsForColumns(column_scales, DType::kFloat32, at_, columns)) return false;
    Step();
    Value* scales = Operand(Op::kMul);
    if (scales == nullptr || scales->is_constant() || !IsFloat32(scales) ||
        !IsOnePerRow(scales, codes)) {
      return false;
    }
    Step();
    Value* bias = Operand(Op::kAdd);
    if (IsForColumns(bias, DType::kFloat32, at_, columns)) {
      Step();
    } else {
      bias = nullptr;
    }
    graph_.opsets.try_emplace(kRequantDomain, 1);
    Value* y = graph_.AddOp("MatMulIntegerRows", kRequantDomain,
                            {codes, product_->inputs[1], scales, column_scales, bias, zeros, sums},
                            at_->name + "_rows", at_->type, {}, product_->name + "_rows");
    return Bypass(graph_, at_->producer, y);
  }

 private:
  /// The only reader of the value reached so far, if it is such an operator.
  Node* Next(Op op) const {
    Node* node = graph_.SoleConsumer(at_);
    return node && node->Is(op) ? node : nullptr;
  }
  /// The other operand of that reader.
  Value* Operand(Op op) const {
    const Node* node = Next(op);
    if (node == nullptr) return nullptr;
    return node->inputs[node->inputs[0] == at_ ? 1 : 0];
  }
  void Step() { at_ = graph_.SoleConsumer(at_)->outputs[0]; }

  /// z of Mul(Cast(z), sums of w's columns), which are set.
  static Value* ZerosOf(const Value* value, const Tensor& w, Value*& sums) {
    const Node* mul = ProducerOf(value, "Mul");
    if (mul == nullptr || value->type.dtype != DType::kInt32) return nullptr;
    for (const size_t side : {size_t{0}, size_t{1}}) {
      const Tensor* numbers = mul->constant(side);
      const Node* cast = ProducerOf(mul->input(1 - side), "Cast");
      if (numbers && cast && cast->input(0)->type.dtype == DType::kUint8 &&
          numbers->ToInts() == ColumnSums(w).ToInts()) {
        sums = mul->inputs[side];
        return cast->input(0);
      }
    }
    return nullptr;
  }

  Graph& graph_;
  Node* product_;
  Value* at_;
};

}  // namespace

bool FuseRowCodes(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) {
    return FuseCodes(g, node) || ProductRewriter(g, node).Run();
  });
}

}  // namespace requant

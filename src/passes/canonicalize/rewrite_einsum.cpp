// RewriteEinsum
//   Before: y = Einsum(a, b) {equation}
//   After:  y = Transpose(Reshape(MatMul(a', b')), ...) with a' = Reshape(Transpose(ReduceSum(a)))
//             [batch..., left, summed] and b' [batch..., summed, right];
//           y = Mul(Unsqueeze(Transpose(a)), Unsqueeze(Transpose(b))) where nothing is summed over
//             both;
//           y = Transpose(ReduceSum(a)) for one operand
//   Conditions: float32, opset 13 on, ranks known; at most two operands; no subscript twice in one
//     term; dimensions of one subscript equal (none is stretched); where several subscripts share a
//     dimension of the product, at most one of them unknown.
//   Formula: a subscript of both operands and of the result is a batch, one of both but not of the
//     result is summed by the product, one of a single operand that the result lacks is summed
//     before (onnx/docs/Operators.md, Einsum).
#include <algorithm>
#include <string>

#include "ops/matrix/einsum.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

bool Has(const EinsumTerm& term, int subscript) {
  return std::find(term.begin(), term.end(), subscript) != term.end();
}

EinsumTerm Joined(std::initializer_list<const EinsumTerm*> terms) {
  EinsumTerm out;
  for (const EinsumTerm* term : terms) out.insert(out.end(), term->begin(), term->end());
  return out;
}

/// A value whose dimensions are named by subscripts.
struct Labelled {
  Value* value;
  EinsumTerm term;

  const Dim& dim(size_t axis) const { return (*value->type.shape)[axis]; }
};

/// Sizes of a Reshape: numbers, 0 for "as in the input" and -1 for the rest.
class Target {
 public:
  /// Appends a size: the product of `dims`. `from` is the position of the first one in the input if
  /// it stays alone, else -1.
  void Add(const std::vector<Dim>& dims, int64_t from) {
    int64_t known = 1;
    bool open = false;
    for (const Dim& dim : dims) {
      open = open || !dim.known();
      if (dim.known()) known *= dim.value;
      right_ = right_ && (!dim.known() || (dim.value > 0 && known < (int64_t{1} << 40)));
    }
    if (!open) {
      sizes_.push_back(known);
      type_.push_back(known);
    } else if (dims.size() == 1 && from == static_cast<int64_t>(sizes_.size())) {
      sizes_.push_back(0);
      type_.push_back(dims[0]);
    } else {
      right_ = right_ && !rest_;
      rest_ = true;
      sizes_.push_back(-1);
      type_.push_back(dims.size() == 1 ? dims[0] : Dim());
    }
  }
  bool right() const { return right_; }
  const std::vector<int64_t>& sizes() const { return sizes_; }
  ValueType type() const { return {DType::kFloat32, type_}; }

 private:
  std::vector<int64_t> sizes_;
  SymbolicShape type_;
  bool rest_ = false;
  bool right_ = true;
};

class Rewriter {
 public:
  Rewriter(Graph& graph, Node* node) : graph_(graph), node_(node) {}

  bool Run() {
    if (graph_.opset() < 13 || node_->inputs.size() > 2 || node_->inputs.empty()) return false;
    std::vector<size_t> ranks;
    for (const Value* input : node_->inputs) {
      if (!IsFloat32(input) || RankOf(input) < 0) return false;
      ranks.push_back(input->type.shape->size());
    }
    const EinsumEquation equation = ReadEquation(node_->attributes, ranks);
    std::vector<Labelled> operands;
    for (size_t i = 0; i < ranks.size(); ++i) {
      operands.push_back({node_->inputs[i], equation.inputs[i]});
      if (IsRepeated(equation.inputs[i])) return false;
    }
    if (IsRepeated(equation.output) || !Agree(operands)) return false;
    if (operands.size() == 1) {
      return Finish(Arranged(Summed(operands[0], equation.output), equation.output));
    }
    return Multiply(operands[0], operands[1], equation.output);
  }

 private:
  static bool IsRepeated(const EinsumTerm& term) {
    for (size_t i = 0; i < term.size(); ++i) {
      if (std::find(term.begin(), term.begin() + static_cast<ptrdiff_t>(i), term[i]) !=
          term.begin() + static_cast<ptrdiff_t>(i)) {
        return true;
      }
    }
    return false;
  }

  /// Whether every subscript has one size.
  static bool Agree(const std::vector<Labelled>& operands) {
    if (operands.size() < 2) return true;
    for (size_t i = 0; i < operands[0].term.size(); ++i) {
      for (size_t k = 0; k < operands[1].term.size(); ++k) {
        if (operands[0].term[i] == operands[1].term[k] &&
            !(operands[0].dim(i) == operands[1].dim(k))) {
          return false;
        }
      }
    }
    return true;
  }

  /// Sums over the subscripts that are not in `wanted`.
  Labelled Summed(Labelled from, const EinsumTerm& wanted) {
    std::vector<int64_t> axes;
    Labelled out{from.value, {}};
    SymbolicShape shape;
    for (size_t i = 0; i < from.term.size(); ++i) {
      if (Has(wanted, from.term[i])) {
        out.term.push_back(from.term[i]);
        shape.push_back(from.dim(i));
      } else {
        axes.push_back(static_cast<int64_t>(i));
      }
    }
    if (axes.empty()) return from;
    AttributeMap attributes;
    attributes.Set("keepdims", int64_t{0});
    out.value = AddNear(graph_, node_, "ReduceSum", {from.value, Ints(axes)},
                        {DType::kFloat32, std::move(shape)}, std::move(attributes));
    return out;
  }

  /// Arranges the dimensions in the order of `term`, which has the same subscripts.
  Labelled Arranged(const Labelled& from, const EinsumTerm& term) {
    if (from.term == term) return from;
    std::vector<int64_t> perm;
    SymbolicShape shape;
    for (const int subscript : term) {
      const auto at = static_cast<size_t>(std::find(from.term.begin(), from.term.end(), subscript) -
                                          from.term.begin());
      perm.push_back(static_cast<int64_t>(at));
      shape.push_back(from.dim(at));
    }
    AttributeMap attributes;
    attributes.Set("perm", std::move(perm));
    return {AddNear(graph_, node_, "Transpose", {from.value}, {DType::kFloat32, std::move(shape)},
                    std::move(attributes)),
            term};
  }

  bool Multiply(const Labelled& a, const Labelled& b, const EinsumTerm& result) {
    const Labelled left_operand = Summed(a, Joined({&b.term, &result}));
    const Labelled right_operand = Summed(b, Joined({&a.term, &result}));
    const EinsumTerm& left_term = left_operand.term;
    const EinsumTerm& right_term = right_operand.term;
    EinsumTerm batch, left, right, summed;
    for (const int subscript : result) {
      const bool in_left = Has(left_term, subscript);
      const bool in_right = Has(right_term, subscript);
      (in_left && in_right ? batch : in_left ? left : right).push_back(subscript);
    }
    for (const int subscript : left_term) {
      if (!Has(result, subscript)) summed.push_back(subscript);
    }
    if (summed.empty()) return Scale(left_operand, right_operand, result);
    const Labelled x = Arranged(left_operand, Joined({&batch, &left, &summed}));
    const Labelled y = Arranged(right_operand, Joined({&batch, &summed, &right}));
    const std::vector<Dim> batches = Dims(x, 0, batch.size());
    const std::vector<Dim> lefts = Dims(x, batch.size(), left.size());
    const std::vector<Dim> sums = Dims(y, batch.size(), summed.size());
    const std::vector<Dim> rights = Dims(y, batch.size() + summed.size(), right.size());
    // Without a batch the left operand keeps its dimensions, since MatMul takes any number.
    const bool kept = batch.empty();
    Target x_target, y_target, target;
    for (size_t i = 0; i < batch.size(); ++i) {
      for (Target* each : {&x_target, &y_target, &target}) {
        each->Add({batches[i]}, static_cast<int64_t>(i));
      }
    }
    const auto first = static_cast<int64_t>(batch.size());
    if (kept) {
      for (size_t i = 0; i < left.size(); ++i) x_target.Add({lefts[i]}, static_cast<int64_t>(i));
    } else {
      x_target.Add(lefts, left.size() == 1 ? first : -1);
    }
    const bool in_place = summed.size() == 1 && (kept || left.size() == 1);
    x_target.Add(sums, in_place ? static_cast<int64_t>(x_target.sizes().size()) : -1);
    y_target.Add(sums, summed.size() == 1 ? first : -1);
    y_target.Add(rights, summed.size() == 1 && right.size() == 1 ? first + 1 : -1);
    for (const Dim& dim : lefts) {
      target.Add({dim},
                 kept || left.size() == 1 ? static_cast<int64_t>(target.sizes().size()) : -1);
    }
    for (const Dim& dim : rights) {
      const bool same = right.size() == 1 && (kept || left.size() == 1);
      target.Add({dim}, same ? static_cast<int64_t>(target.sizes().size()) : -1);
    }
    SymbolicShape shape = *x_target.type().shape;
    shape.back() = y_target.type().shape->back();
    Value* product = nullptr;
    if (in_place && right.size() == 1) {
      product = AddNear(graph_, node_, "MatMul", {x.value, y.value}, {DType::kFloat32, shape});
    } else if (!x_target.right() || !y_target.right() || !target.right()) {
      return false;
    } else {
      product =
          AddNear(graph_, node_, "MatMul",
                  {in_place ? x.value : Reshaped(x.value, x_target), Reshaped(y.value, y_target)},
                  {DType::kFloat32, shape});
      product = Reshaped(product, target);
    }
    return Finish(Arranged({product, Joined({&batch, &left, &right})}, result));
  }

  static std::vector<Dim> Dims(const Labelled& from, size_t first, size_t count) {
    std::vector<Dim> out;
    for (size_t i = 0; i < count; ++i) out.push_back(from.dim(first + i));
    return out;
  }

  Value* Reshaped(Value* value, const Target& target) {
    if (value->type.shape == target.type().shape) return value;
    return AddNear(graph_, node_, "Reshape", {value, Ints(target.sizes())}, target.type());
  }

  /// Rewrites a product without a sum.
  bool Scale(const Labelled& a, const Labelled& b, const EinsumTerm& result) {
    std::vector<Value*> inputs;
    for (const Labelled& operand : {a, b}) {
      EinsumTerm own;
      std::vector<int64_t> missing;
      for (size_t i = 0; i < result.size(); ++i) {
        if (Has(operand.term, result[i])) {
          own.push_back(result[i]);
        } else {
          missing.push_back(static_cast<int64_t>(i));
        }
      }
      const Labelled arranged = Arranged(operand, own);
      Value* value = arranged.value;
      if (!missing.empty()) {
        ValueType type{DType::kFloat32, SymbolicShape(result.size(), Dim(1))};
        for (size_t i = 0, k = 0; i < result.size(); ++i) {
          if (Has(own, result[i])) (*type.shape)[i] = arranged.dim(k++);
        }
        value = AddNear(graph_, node_, "Unsqueeze", {value, Ints(missing)}, type);
      }
      inputs.push_back(value);
    }
    return Finish({AddNear(graph_, node_, "Mul", inputs, node_->output()->type), result});
  }

  Value* Ints(const std::vector<int64_t>& values) {
    return AddNear(graph_, node_, Tensor::Vector(values));
  }

  /// Makes the value replace the node's result.
  bool Finish(const Labelled& result) {
    if (Bypass(graph_, node_, result.value)) return true;
    // A graph output that is a graph input or constant needs an Identity.
    TruncateInputs(graph_, node_, 0);
    graph_.SetInput(node_, 0, result.value);
    node_->Retype(Op::kIdentity);
    node_->attributes = {};
    return true;
  }

  Graph& graph_;
  Node* node_;
};

}  // namespace

bool RewriteEinsum(Graph& graph, PassContext&) {
  return RewriteNodes(
      graph, [](Graph& g, Node* node) { return node->Is(Op::kEinsum) && Rewriter(g, node).Run(); });
}

}  // namespace requant

#include "quant/rotate/rotation_region.h"

#include <algorithm>
#include <map>

#include "base/str_cat.h"
#include "quant/rotate/hadamard.h"
#include "quant/rotate/last_dims.h"

namespace requant {
namespace {

using Edit = RotationRegion::Edit;

/// The float matrix in slot 1 of a MatMul or Gemm, or nullptr.
const Tensor* WeightsOf(const Node& node) {
  if (!node.Is(Op::kMatMul) && !node.Is(Op::kGemm)) return nullptr;
  const Tensor* weights = node.constant(1);
  return weights && weights->rank() == 2 && weights->dtype() == DType::kFloat32 ? weights : nullptr;
}

bool IsScalar(const Value* value) {
  return value && value->is_constant() && value->constant.count() == 1;
}

/// Whether the node's axes, an attribute or a constant, are the last one alone.
bool ReducesRows(const Node& node, const Value& operand) {
  std::vector<int64_t> axes = node.attributes.Ints("axes");
  if (const Tensor* list = node.constant(1)) {
    axes.clear();
    for (int64_t i = 0; i < list->count(); ++i) axes.push_back(list->AsInt64(i));
  }
  const auto& shape = operand.type.shape;
  return axes.size() == 1 &&
         (axes[0] == -1 || (shape && axes[0] == static_cast<int64_t>(shape->size()) - 1));
}

bool IsReduction(const Node& node) { return node.Is(Op::kReduceMean) || node.Is(Op::kReduceSum); }

class Flood {
 public:
  Flood(const Graph& graph, RotationRegion& region) : graph_(graph), region_(region) {}

  void Run(const Value* start) {
    Join(start, "the operand");
    while (!waiting_.empty() && region_.why.empty()) {
      const Value* value = waiting_.back();
      waiting_.pop_back();
      Visit(*value->producer, value);
      for (Node* reader : value->consumers) {
        if (!region_.why.empty()) return;
        if (scaled_.contains(value) &&
            (WeightsOf(*reader) == nullptr || reader->inputs[0] != value)) {
          Stop(*reader, "reads what a normalization's factors scale");
        } else {
          Visit(*reader, value);
        }
      }
    }
  }

 private:
  void Stop(const Node& node, const char* what) {
    if (region_.why.empty()) region_.why = StrCat(node.op_type, " '", node.name, "' ", what);
  }
  void Join(const Value* value, const char* role = "a value") {
    if (!region_.why.empty() || region_.Has(value)) return;
    const int64_t last = dims_.Of(value);
    if (value == nullptr || value->producer == nullptr) {
      region_.why = StrCat(role, " is an input of the model or a constant");
    } else if (graph_.IsOutput(value)) {
      region_.why = StrCat("'", value->name, "' is an output of the model");
    } else if (last < 0) {
      region_.why = StrCat("the last axis of '", value->name, "' has an unknown size");
    } else if (region_.size = RotationSize(last, region_.size); region_.size < 2) {
      region_.why = StrCat("'", value->name, "' has an odd number of channels");
    }
    region_.values.push_back(value);
    waiting_.push_back(value);
  }
  void Change(Node& node, size_t slot, Edit::Kind kind, const Tensor* factors = nullptr) {
    for (const Edit& edit : region_.edits) {
      if (edit.node == &node && edit.slot == slot && edit.kind == kind) return;
    }
    region_.edits.push_back({&node, slot, kind, factors});
  }
  /// A constant that is added to rows, or a value that is.
  void JoinTerm(Node& node, size_t slot, int64_t channels) {
    Value* term = node.inputs[slot];
    if (dims_.Of(term) != channels) {
      Stop(node, "adds rows of another length");
    } else if (!term->is_constant()) {
      Join(term);
    } else if (term->constant.dtype() == DType::kFloat32) {
      Change(node, slot, Edit::Kind::kRow);
    } else {
      Stop(node, "adds a constant that is not float32");
    }
  }
  /// A normalization, or the Mul at its end, whose factors the products behind it can take.
  void JoinScaled(Node& node, size_t slot, const Value* from) {
    const Value* out = node.outputs[0];
    const Tensor& factors = node.inputs[slot]->constant;
    if (factors.dtype() != DType::kFloat32 || factors.count() != dims_.Of(out)) {
      return Stop(node, "multiplies by a constant of another form");
    }
    scaled_[out] = &factors;
    const auto same = [&](const RotationRegion::Factors& other) { return other.node == &node; };
    if (std::none_of(region_.factors.begin(), region_.factors.end(), same)) {
      region_.factors.push_back({&node, slot});
    }
    Join(from);
    Join(out);
  }

  void Visit(Node& node, const Value* value);
  void Product(Node& node, const Value* value, const Tensor& weights);
  void MultiplyRows(Node& node, const Value* value);
  bool Move(Node& node);
  bool Normalize(Node& node);
  bool Attend(Node& node, const Value* value);
  /// Whether the node computes what the rotation of `value` does not change.
  bool IsInvariant(const Node& node, const Value* value) const;

  const Graph& graph_;
  RotationRegion& region_;
  LastDims dims_;
  std::vector<const Value*> waiting_;
  std::map<const Value*, const Tensor*> scaled_;
};

void Flood::Product(Node& node, const Value* value, const Tensor& weights) {
  if (SharesWeights(node)) return Stop(node, "shares its weights");
  if (value == node.outputs[0]) {
    Change(node, 1, Edit::Kind::kMaker);
    if (node.input(2) == nullptr) return;
    if (!node.inputs[2]->is_constant() || node.constant(2)->rank() == 0) {
      return Stop(node, "has a bias that is no constant row");
    }
    return JoinTerm(node, 2, dims_.Of(value));
  }
  const bool rows = node.attributes.Int("transB", 0) != 0;
  if (value != node.inputs[0] || node.attributes.Int("transA", 0) != 0 ||
      weights.dim(rows ? 1 : 0) != dims_.Of(value)) {
    return Stop(node, "reads the rows in another form");
  }
  const auto scaled = scaled_.find(value);
  Change(node, 1, Edit::Kind::kReader, scaled == scaled_.end() ? nullptr : scaled->second);
}

bool Flood::IsInvariant(const Node& node, const Value* value) const {
  if (node.Is(Op::kShape) || node.Is(Op::kSize)) return true;
  if (node.Is(Op::kReduceL2) || node.Is(Op::kReduceSumSquare)) return ReducesRows(node, *value);
  const bool square =
      (node.Is(Op::kPow) && IsScalar(node.input(1)) && node.constant(1)->AsDouble(0) == 2) ||
      (node.Is(Op::kMul) && node.inputs[0] == node.inputs[1]);
  if (!square || node.inputs[0] != value) return false;
  const Node* mean = graph_.SoleConsumer(node.outputs[0]);
  return mean && IsReduction(*mean) && ReducesRows(*mean, *value);
}

void Flood::MultiplyRows(Node& node, const Value* value) {
  const Value* out = node.outputs[0];
  for (const size_t slot : {size_t{1}, size_t{0}}) {
    if (node.Is(Op::kDiv) && slot == 0) break;
    const Value* factor = node.inputs[slot];
    const Value* rows = node.inputs[1 - slot];
    if (factor == value) continue;
    if (IsScalar(factor) || dims_.Of(factor) == 1) {
      Join(rows);
      return Join(out);
    }
    if (node.Is(Op::kMul) && factor->is_constant() &&
        factor->constant.shape().back() == dims_.Of(out)) {
      return JoinScaled(node, slot, rows);
    }
  }
  Stop(node, "multiplies channels");
}

bool Flood::Move(Node& node) {
  const Value* from = node.input(0);
  const Value* to = node.outputs[0];
  // Runs of channels stay together where the order of all numbers stays, and both last axes are
  // multiples of the block, which Join() sees to.
  bool keeps = node.Is(Op::kReshape) || node.Is(Op::kFlatten) || node.Is(Op::kSqueeze) ||
               node.Is(Op::kUnsqueeze) || node.Is(Op::kIdentity) ||
               (node.Is(Op::kDropout) && node.output(1) == nullptr);
  const bool same = dims_.Of(from) == dims_.Of(to);
  if (node.Is(Op::kTranspose)) {
    const std::vector<int64_t> order = node.attributes.Ints("perm");
    keeps = !order.empty() && order.back() == static_cast<int64_t>(order.size()) - 1;
  }
  if (node.Is(Op::kExpand)) keeps = same;
  if (node.Is(Op::kGather) && from && !from->is_constant() && from->type.shape) {
    const int64_t axis = node.attributes.Int("axis", 0);
    keeps = same && axis != -1 && axis != static_cast<int64_t>(from->type.shape->size()) - 1;
  }
  if (!keeps) return false;
  Join(from);
  Join(to);
  return true;
}

bool Flood::Normalize(Node& node) {
  const bool skip = node.op_type == "SkipSimplifiedLayerNormalization";
  if (!skip && !node.Is(Op::kRMSNormalization) && !node.Is(Op::kSimplifiedLayerNormalization)) {
    return false;
  }
  const auto& shape = node.inputs[0]->type.shape;
  const int64_t axis = node.attributes.Int("axis", -1);
  if (axis != -1 && (!shape || axis != static_cast<int64_t>(shape->size()) - 1)) return false;
  const size_t slot = skip ? 2 : 1;
  if (node.constant(slot) == nullptr) return false;
  if (skip) {
    JoinTerm(node, 1, dims_.Of(node.outputs[0]));
    if (node.input(3)) JoinTerm(node, 3, dims_.Of(node.outputs[0]));
    if (node.output(3)) Join(node.outputs[3]);
  }
  JoinScaled(node, slot, node.inputs[0]);
  return true;
}

/// The values of attention, without a past that others keep.
bool Flood::Attend(Node& node, const Value* value) {
  const bool fused = node.Is(Op::kMultiHeadAttention);
  if (!fused && !node.Is(Op::kAttention)) return false;
  if (value != node.outputs[0] && value != node.input(2)) return false;
  const char* heads_name = fused ? "num_heads" : "kv_num_heads";
  const int64_t heads = node.attributes.Int(heads_name, 1);
  const bool past =
      fused ? node.input(3) || node.input(6) || node.input(7) : node.input(4) != nullptr;
  if (past || node.output(1) || node.output(2) || node.input(2) == nullptr || heads < 1 ||
      node.inputs[2] == node.inputs[0] || node.inputs[2] == node.input(1)) {
    return false;
  }
  region_.size = RotationSize(dims_.Of(node.inputs[2]) / heads, region_.size);
  if (region_.size < 2) return false;
  Join(node.inputs[2]);
  Join(node.outputs[0]);
  return true;
}

void Flood::Visit(Node& node, const Value* value) {
  if (const Tensor* weights = WeightsOf(node)) return Product(node, value, *weights);
  if (IsInvariant(node, value) || Move(node) || Normalize(node) || Attend(node, value)) return;
  if (node.Is(Op::kMatMul) && value != node.inputs[0] && !node.inputs[1]->is_constant()) {
    const auto& shape = node.inputs[1]->type.shape;
    if (shape && shape->size() > 1 && node.inputs[0] != node.inputs[1]) {
      Join(node.inputs[1]);
      return Join(node.outputs[0]);
    }
  }
  if (node.Is(Op::kAdd) || node.Is(Op::kSub)) {
    const int64_t channels = dims_.Of(node.outputs[0]);
    JoinTerm(node, 0, channels);
    JoinTerm(node, 1, channels);
    return Join(node.outputs[0]);
  }
  if (node.Is(Op::kMul) || node.Is(Op::kDiv)) return MultiplyRows(node, value);
  const Tensor* table = node.Is(Op::kGather) ? node.constant(0) : nullptr;
  if (table && table->rank() == 2 && table->dtype() == DType::kFloat32 &&
      node.attributes.Int("axis", 0) == 0 && value == node.outputs[0]) {
    return Change(node, 0, Edit::Kind::kRow);
  }
  Stop(node, "does not commute with a rotation");
}

/// Rotates runs along the axis of the columns (`along` is 1) or of the rows (0) of a matrix.
Tensor RotateMatrix(const Tensor& from, size_t along, const HadamardRotation& rotation,
                    const Tensor* factors) {
  Tensor out(DType::kFloat32, from.shape());
  const int64_t rank = from.rank();
  const int64_t columns = rank > 0 ? from.dim(rank - 1) : 1;
  const int64_t rows = from.count() / std::max(columns, int64_t{1});
  const int64_t length = along == 1 ? columns : rows, step = along == 1 ? 1 : columns;
  const int64_t runs = along == 1 ? rows : columns, run_step = along == 1 ? columns : 1;
  std::vector<double> run(static_cast<size_t>(length));
  for (int64_t at = 0; at < runs; ++at) {
    for (int64_t i = 0; i < length; ++i) {
      const int64_t element = at * run_step + i * step;
      run[static_cast<size_t>(i)] = static_cast<double>(from.data<float>()[element]) *
                                    (factors ? static_cast<double>(factors->data<float>()[i]) : 1);
    }
    rotation.Apply(run.data(), run.size());
    for (int64_t i = 0; i < length; ++i) {
      out.data<float>()[at * run_step + i * step] = static_cast<float>(run[static_cast<size_t>(i)]);
    }
  }
  return out;
}

}  // namespace

bool SharesWeights(const Node& product) {
  const Value* weights = product.inputs[1];
  return std::any_of(weights->consumers.begin(), weights->consumers.end(), [&](const Node* reader) {
    return reader != &product && !(reader->Is(Op::kGather) && reader->inputs[0] == weights);
  });
}

bool RotationRegion::Has(const Value* value) const {
  return std::find(values.begin(), values.end(), value) != values.end();
}

const Edit* RotationRegion::ReaderOf(const Node* node) const {
  for (const Edit& edit : edits) {
    if (edit.node == node && edit.kind == Edit::Kind::kReader) return &edit;
  }
  return nullptr;
}

RotationRegion FindRotationRegion(const Graph& graph, const Value* start, int64_t most) {
  RotationRegion region;
  region.size = most;
  Flood(graph, region).Run(start);
  return region;
}

void RotateRegion(Graph& graph, const RotationRegion& region) {
  const HadamardRotation rotation(region.size);
  for (const Edit& edit : region.edits) {
    Value* before = edit.node->inputs[edit.slot];
    const bool turned =
        edit.kind != Edit::Kind::kRow && edit.node->attributes.Int("transB", 0) != 0;
    const bool last_axis = (edit.kind == Edit::Kind::kReader) == turned;
    Tensor made = RotateMatrix(before->constant, last_axis || edit.kind == Edit::Kind::kRow ? 1 : 0,
                               rotation, edit.factors);
    graph.SetInput(edit.node, edit.slot,
                   graph.AddConstant(StrCat(before->name, "_rotated"), std::move(made)));
  }
  for (const auto& [node, slot] : region.factors) {
    if (node->Is(Op::kMul)) {
      graph.ReplaceAllUses(node->outputs[0], node->inputs[1 - slot]);
      graph.EraseNode(node);
      continue;
    }
    Tensor ones(DType::kFloat32, node->inputs[slot]->constant.shape());
    std::fill_n(ones.data<float>(), ones.count(), 1.0F);
    graph.SetInput(node, slot,
                   graph.AddConstant(StrCat(node->inputs[slot]->name, "_taken"), std::move(ones)));
  }
}

}  // namespace requant

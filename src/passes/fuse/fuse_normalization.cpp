// FuseNormalization
//
// Normalizations written out in parts, in any spelling that is one:
//   Before: y = (x - E[x]) / sqrt(v + e),  x / sqrt(E[x^2] + e)     E: the mean along axes
//   After:  y = LayerNormalization(x, k) {epsilon}; RMSNormalization(x, k), which before opset 23
//   is
//           SimplifiedLayerNormalization; k: a constant, all elements alike
//   v: E[(x - E[x])^2] or E[x^2] - E[x]^2.
//   Along the second of several dimensions (images of channels first) between two Transposes.
//
//   Before: y = x * r + (b - E[x] * r), r = g / sqrt(v + e)         TensorFlow's and Keras' form
//   After:  y = LayerNormalization(x, k) * g + b
//
//   Before: y = LayerNormalization(x, s, b) * c  or  + c
//   After:  y = LayerNormalization(x, s * c, b * c); LayerNormalization(x, s, b + c)
//
// Statistics: passes/match/statistics.h.
//
// Conditions: float32; axes that are the last ones, or the second alone; their sizes known. Bound:
//   of a variance as a difference the operator has the smaller error.
#include <algorithm>
#include <cmath>

#include "passes/fuse/fold_into_normalization.h"
#include "passes/match/statistics.h"
#include "passes/pass.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

/// The normalization that an inverse deviation performs: x * scale / sqrt(E[...] + epsilon).
struct Normal {
  Value* x = nullptr;
  Axes axes;
  bool centred = false;
  double scale = 1, epsilon = 0;
};

/// The inverse deviation that multiplies a product, or whose inverse divides a quotient.
std::optional<Normal> NormalOf(const Statistic& statistic, bool quotient) {
  const double sign = quotient ? -1 : 1;
  if (statistic.is_mean || !statistic.kept || !Near(sign * statistic.power, -0.5) ||
      !(statistic.square > 0) || statistic.axes.empty()) {
    return {};
  }
  Normal out{statistic.x, statistic.axes};
  out.centred = statistic.mean != 0;
  if (out.centred && !Near(-statistic.mean, statistic.square)) return {};
  out.scale = std::pow(statistic.factor, sign) / std::sqrt(statistic.square);
  out.epsilon = statistic.constant / statistic.square;
  const bool usual = std::isfinite(out.scale) && out.epsilon >= 0 &&
                     std::isfinite(static_cast<float>(out.epsilon));
  return usual ? std::optional(out) : std::nullopt;
}

class Rewriter {
 public:
  Rewriter(Graph& graph, Node* node) : graph_(graph), node_(node), reader_(graph) {}

  bool Run() {
    if (!node_->domain.empty() || node_->outputs.size() != 1 || node_->inputs.size() != 2 ||
        !node_->inputs[0] || !node_->inputs[1] || !IsFloat32(node_->output())) {
      return false;
    }
    if (node_->Is(Op::kMul) || node_->Is(Op::kDiv))
      return Apply() || FoldIntoNormalization(graph_, node_);
    if (node_->Is(Op::kAdd) || node_->Is(Op::kSub))
      return ApplyShifted() || FoldIntoNormalization(graph_, node_);
    return false;
  }

 private:
  /// Rewrites (x - E[x]) * r or / s, perhaps with a constant in the first operand.
  bool Apply() {
    const bool quotient = node_->Is(Op::kDiv);
    for (const size_t slot : {size_t{1}, size_t{0}}) {
      if (quotient && slot == 0) continue;
      const auto statistic = reader_.Read(node_->inputs[slot]);
      if (!statistic || (quotient && statistic->gain)) continue;
      const auto normal = NormalOf(*statistic, quotient);
      if (!normal || !Fits(*normal)) continue;
      Value* gain = statistic->gain;
      Value* data = node_->inputs[1 - slot];
      if (!Normalizes(*normal, data)) {
        const Node* product = Peel(data)->producer;
        if (gain || product == nullptr || !product->Is(Op::kMul)) continue;
        const size_t constant = product->inputs[0]->is_constant() ? 0 : 1;
        gain = product->inputs[constant];
        data = product->inputs[1 - constant];
        if (!gain->is_constant() || !IsFloat32(gain) || !Normalizes(*normal, data)) continue;
      }
      if (gain && RankOf(gain) > RankOf(normal->x)) continue;
      Become(*normal, gain, nullptr);
      return true;
    }
    return false;
  }

  bool Normalizes(const Normal& normal, Value* data) {
    return normal.centred ? reader_.CentredOf(data, normal.axes) == normal.x
                          : Peel(data) == normal.x;
  }

  /// Rewrites x * r + (b - E[x] * r) and x * r - E[x] * r.
  bool ApplyShifted() {
    for (const size_t slot : {size_t{0}, size_t{1}}) {
      if (slot == 1 && node_->Is(Op::kSub)) break;
      Value* shift = nullptr;
      Value* shifted = node_->inputs[1 - slot];
      if (node_->Is(Op::kAdd)) {
        const Node* difference = Peel(shifted)->producer;
        if (difference == nullptr || !difference->Is(Op::kSub) ||
            !difference->inputs[0]->is_constant()) {
          continue;
        }
        shift = difference->inputs[0];
        shifted = difference->inputs[1];
      }
      const Node* scaled = Peel(node_->inputs[slot])->producer;
      const Node* mean = Peel(shifted)->producer;
      if (scaled == nullptr || mean == nullptr || !scaled->Is(Op::kMul) || !mean->Is(Op::kMul))
        continue;
      for (const size_t r : {size_t{1}, size_t{0}}) {
        const auto statistic = reader_.Read(scaled->inputs[r]);
        const auto normal = statistic ? NormalOf(*statistic, false) : std::nullopt;
        if (!normal || !normal->centred || !Fits(*normal)) continue;
        if (Peel(scaled->inputs[1 - r]) != normal->x) continue;
        const Value* factor = Peel(scaled->inputs[r]);
        const size_t same = Peel(mean->inputs[0]) == factor ? 0 : 1;
        if (Peel(mean->inputs[same]) != factor ||
            !reader_.IsMeanOf(mean->inputs[1 - same], normal->x, normal->axes)) {
          continue;
        }
        const int64_t rank = RankOf(normal->x);
        if (RankOf(statistic->gain) > rank || RankOf(shift) > rank) continue;
        Become(*normal, statistic->gain, shift);
        return true;
      }
    }
    return false;
  }

  /// Whether the axes are the last ones, or only the second.
  static bool Fits(const Normal& normal) {
    const int64_t rank = RankOf(normal.x);
    const auto count = static_cast<int64_t>(normal.axes.size());
    if (CountOf(normal.x, normal.axes) == 0) return false;
    return normal.axes[0] == rank - count || IsSecond(normal);
  }
  static bool IsSecond(const Normal& normal) {
    return normal.axes == Axes{1} && RankOf(normal.x) > 2;
  }

  /// Turns the node into the normalization, times `gain` and plus `shift` if given.
  void Become(const Normal& normal, Value* gain, Value* shift) {
    Value* made = nullptr;
    const bool alone = gain == nullptr && shift == nullptr;
    if (IsSecond(normal)) {
      const int64_t rank = RankOf(normal.x);
      std::vector<int64_t> to = {0};
      std::vector<int64_t> back = {0, rank - 1};
      ValueType type{DType::kFloat32, SymbolicShape{DimOf(normal.x, 0)}};
      for (int64_t axis = 2; axis < rank; ++axis) {
        to.push_back(axis);
        back.push_back(axis - 1);
        type.shape->push_back(DimOf(normal.x, axis));
      }
      to.push_back(1);
      type.shape->push_back(DimOf(normal.x, 1));
      AttributeMap perm;
      perm.Set("perm", to);
      Value* transposed = AddNear(graph_, node_, "Transpose", {normal.x}, type, perm);
      made = AddNear(graph_, node_, NameOf(normal), {transposed, Scale(normal)}, type,
                     AttributesOf(normal, -1));
      perm.Set("perm", back);
      if (alone) return Replace("Transpose", {made}, perm);
      made = AddNear(graph_, node_, "Transpose", {made}, normal.x->type, perm);
    } else {
      AttributeMap attributes = AttributesOf(normal, -static_cast<int64_t>(normal.axes.size()));
      if (alone) return Replace(NameOf(normal), {normal.x, Scale(normal)}, attributes);
      made = AddNear(graph_, node_, NameOf(normal), {normal.x, Scale(normal)}, normal.x->type,
                     attributes);
    }
    if (shift == nullptr) return Replace("Mul", {made, gain}, {});
    if (gain) made = AddNear(graph_, node_, "Mul", {made, gain}, normal.x->type);
    Replace("Add", {made, shift}, {});
  }

  const char* NameOf(const Normal& normal) const {
    if (normal.centred) return "LayerNormalization";
    return graph_.opset() >= 23 ? "RMSNormalization" : "SimplifiedLayerNormalization";
  }
  static AttributeMap AttributesOf(const Normal& normal, int64_t axis) {
    AttributeMap attributes;
    if (axis != -1) attributes.Set("axis", axis);
    attributes.Set("epsilon", static_cast<float>(normal.epsilon));
    return attributes;
  }
  Value* Scale(const Normal& normal) {
    Shape shape;
    for (const int64_t axis : normal.axes) shape.push_back(DimOf(normal.x, axis).value);
    Tensor scale(DType::kFloat32, shape);
    const double exact = Near(normal.scale, 1) ? 1 : normal.scale;
    for (int64_t i = 0; i < scale.count(); ++i) scale.data<float>()[i] = static_cast<float>(exact);
    return AddNear(graph_, node_, std::move(scale));
  }

  void Replace(const char* op, const std::vector<Value*>& inputs, AttributeMap attributes) {
    for (size_t i = 0; i < inputs.size(); ++i) graph_.SetInput(node_, i, inputs[i]);
    TruncateInputs(graph_, node_, inputs.size());
    node_->Retype(op, "");
    node_->attributes = std::move(attributes);
  }

  Graph& graph_;
  Node* node_;
  StatisticReader reader_;
};

}  // namespace

bool FuseNormalization(Graph& graph, PassContext&) {
  return RewriteNodes(graph, [](Graph& g, Node* node) { return Rewriter(g, node).Run(); });
}

}  // namespace requant

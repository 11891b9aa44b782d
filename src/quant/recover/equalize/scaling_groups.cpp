#include "quant/recover/equalize/scaling_groups.h"

#include <algorithm>
#include <set>

#include "quant/assign/assign.h"
#include "quant/grid/weight_matrix.h"

namespace requant {
namespace {

bool IsOwnConstant(const Node& node, size_t slot) {
  const Value* value = node.input(slot);
  return value && value->is_constant() && value->type.dtype == DType::kFloat32 &&
         value->consumers.size() == 1;
}

bool IsLayer(const Node& node) {
  if (node.Is(Op::kConvTranspose) || !HasWeightMatrix(node, RuleOf(node))) return false;
  return IsOwnConstant(node, 1) && (node.input(2) == nullptr || IsOwnConstant(node, 2));
}

bool IsLayerNormalization(const Node& node) {
  const bool is_normalization = node.Is(Op::kLayerNormalization) ||
                                node.Is(Op::kRMSNormalization) ||
                                node.Is(Op::kSimplifiedLayerNormalization);
  return is_normalization && node.attributes.Int("axis", -1) == -1 && IsOwnConstant(node, 1) &&
         node.constant(1)->rank() == 1 && (node.input(2) == nullptr || IsOwnConstant(node, 2)) &&
         node.outputs.size() == 1;
}

bool IsClip(const Node& node) {
  const Tensor* low = node.constant(1);
  const Tensor* high = node.constant(2);
  return node.Is(Op::kClip) && low && high && low->AsDouble(0) == 0 && high->AsDouble(0) > 0;
}

size_t RankOf(const Value& value) { return value.type.shape ? value.type.shape->size() : 0; }

bool IsPool(const Node& node) {
  return node.Is(Op::kAveragePool) || node.Is(Op::kGlobalAveragePool) ||
         (node.Is(Op::kMaxPool) && node.outputs.size() == 1);
}

/// Whether the operator is f(c * x) = c * f(x) for c > 0, channel by channel, in its slot 0.
bool IsHomogeneous(const Node& node) {
  return node.Is(Op::kRelu) || node.Is(Op::kLeakyRelu) ||
         (node.Is(Op::kPRelu) && node.constant(1)) || IsPool(node);
}

bool SameShapes(const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&node](const Value* input) {
    return input && !input->is_constant() && input->type.shape &&
           input->type.shape == node.outputs[0]->type.shape;
  });
}

/// Whether the operator multiplies two different computed values.
bool IsProduct(const Node& node) {
  return node.Is(Op::kMul) && node.inputs.size() == 2 && node.inputs[0] != node.inputs[1] &&
         !node.inputs[0]->is_constant() && !node.inputs[1]->is_constant();
}

/// Whether the axis has the same known size in both values, so that no channel is repeated.
bool SameAxis(const Value& a, const Value& b, int axis) {
  const auto at = static_cast<size_t>(axis);
  return RankOf(a) == RankOf(b) && at < RankOf(a) && (*a.type.shape)[at].known() &&
         (*a.type.shape)[at] == (*b.type.shape)[at];
}

/// Whether the operator converts [N, C, 1, 1] to [N, C].
bool IsFlattenedPixel(const Node& node) {
  if (!node.Is(Op::kFlatten) && !node.Is(Op::kReshape) && !node.Is(Op::kSqueeze)) return false;
  const auto& from = node.inputs[0]->type.shape;
  const auto& to = node.outputs[0]->type.shape;
  if (!from || !to || from->size() < 3 || to->size() != 2 || !((*from)[1] == (*to)[1]) ||
      !(*from)[1].known()) {
    return false;
  }
  return std::all_of(from->begin() + 2, from->end(),
                     [](const Dim& dim) { return dim.known() && dim.value == 1; });
}

class Explorer {
 public:
  explicit Explorer(const Graph& graph) : graph_(graph) {}

  std::vector<ScalingGroup> Run() {
    std::vector<ScalingGroup> groups;
    for (const auto& node : graph_.nodes()) {
      if ((!IsLayer(*node) && !IsLayerNormalization(*node)) || seen_.contains(node->outputs[0]))
        continue;
      group_ = {};
      good_ = true;
      done_.clear();  // the reason why an earlier group failed applies to this one as well
      const Value* output = node->outputs[0];
      Visit(output, node->Is(Op::kConv) ? 1 : static_cast<int>(RankOf(*output)) - 1);
      if (!good_ || group_.readers.empty() || !SameChannels()) continue;
      for (const auto& [value, axis] : group_.axes) taken_.insert(value);
      groups.push_back(group_);
    }
    return groups;
  }

 private:
  void Visit(const Value* value, int axis) {
    const auto [known, fresh] = group_.axes.emplace(value, axis);
    if (!fresh) {
      good_ = good_ && known->second == axis;
      return;
    }
    seen_.insert(value);
    good_ = good_ && !taken_.contains(value) && axis > 0 && RankOf(*value) > 0 &&
            !graph_.IsOutput(value) && value->producer;
    if (!good_) return;
    Node& maker = *value->producer;
    if (IsLayer(maker) || IsLayerNormalization(maker)) {
      good_ = maker.Is(Op::kConv) ? axis == 1 : axis == static_cast<int>(RankOf(*value)) - 1;
      group_.makers.push_back(&maker);
    } else {
      Through(maker);
    }
    for (Node* reader : value->consumers) {
      if (IsLayer(*reader) && reader->inputs[0] == value) {
        const int wanted = reader->Is(Op::kConv) ? 1 : static_cast<int>(RankOf(*value)) - 1;
        good_ = good_ && axis == wanted;
        group_.readers.push_back(reader);
      } else {
        Through(*reader);
      }
      if (!good_) return;
    }
  }

  /// Visits all data of an operator that commutes with factors.
  void Through(Node& node) {
    if (!done_.insert(&node).second) return;
    const Value* output = node.outputs[0];
    if (IsFlattenedPixel(node)) {
      Visit(node.inputs[0], 1);
      Visit(output, 1);
      return;
    }
    if (IsProduct(node)) {
      ThroughProduct(node);
      return;
    }
    const bool clip = IsClip(node);
    const bool sum = node.Is(Op::kAdd) && SameShapes(node);
    if (!clip && !sum && !IsHomogeneous(node)) {
      good_ = false;
      return;
    }
    const auto known = group_.axes.find(node.inputs[0]);
    const auto other = group_.axes.find(sum ? node.inputs[1] : output);
    const auto last = group_.axes.find(output);
    const int axis = known != group_.axes.end()   ? known->second
                     : other != group_.axes.end() ? other->second
                                                  : last->second;
    if (clip) {
      const double bound = node.constant(2)->AsDouble(0);
      group_.bound = group_.bound == 0 ? bound : std::min(group_.bound, bound);
      group_.clipped.push_back(output);
    }
    Visit(node.inputs[0], axis);
    if (sum) Visit(node.inputs[1], axis);
    Visit(output, axis);
  }

  /// Visits the product and the one of its operands that carries the factors. An operand that the
  /// group has is the carrier; else it is the one that a layer makes.
  void ThroughProduct(const Node& node) {
    const Value* const left = node.inputs[0];
    const Value* const right = node.inputs[1];
    const bool has_left = group_.axes.contains(left);
    const bool has_right = group_.axes.contains(right);
    const auto is_layers = [](const Value* value) {
      return value->producer && IsLayer(*value->producer);
    };
    // Two carriers would multiply the product by the square of the factors.
    if (has_left && has_right) {
      good_ = false;
      return;
    }
    const Value* const output = node.outputs[0];
    const Value* carrier = has_left ? left : has_right ? right : is_layers(left) ? left : right;
    const auto known = group_.axes.find(has_left || has_right ? carrier : output);
    const int axis = known->second;
    good_ = good_ && SameAxis(*carrier, *output, axis);
    if (!good_) return;
    group_.gated = true;
    Visit(carrier, axis);
    Visit(output, axis);
  }

  bool SameChannels() {
    for (Node* node : group_.makers) {
      const int64_t count = node->Is(Op::kConv)                      ? node->constant(1)->dim(0)
                            : IsLayerNormalization(*node)            ? node->constant(1)->count()
                            : node->attributes.Int("transB", 0) != 0 ? node->constant(1)->dim(0)
                                                                     : node->constant(1)->dim(1);
      if (group_.channels == 0) group_.channels = count;
      const Value* bias = node->input(2);
      if (count != group_.channels || (bias && bias->constant.count() != count)) return false;
    }
    return true;
  }

  const Graph& graph_;
  std::set<const Value*> seen_;
  std::set<const Value*> taken_;  // those of the groups that were found
  std::set<const Node*> done_;
  ScalingGroup group_;
  bool good_ = true;
};

}  // namespace

std::vector<ScalingGroup> FindScalingGroups(const Graph& graph) { return Explorer(graph).Run(); }

bool IsOfTransformer(const ScalingGroup& group) {
  return group.gated || std::any_of(group.makers.begin(), group.makers.end(),
                                    [](const Node* node) { return IsLayerNormalization(*node); });
}

}  // namespace requant

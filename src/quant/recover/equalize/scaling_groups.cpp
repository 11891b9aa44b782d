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
  return node.Is(Op::kLayerNormalization) && node.attributes.Int("axis", -1) == -1 &&
         IsOwnConstant(node, 1) && node.constant(1)->rank() == 1 &&
         (node.input(2) == nullptr || IsOwnConstant(node, 2)) && node.outputs.size() == 1;
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

bool SameShapes(const Node& node) {
  return std::all_of(node.inputs.begin(), node.inputs.end(), [&node](const Value* input) {
    return input && !input->is_constant() && input->type.shape &&
           input->type.shape == node.outputs[0]->type.shape;
  });
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
      if (good_ && !group_.readers.empty() && SameChannels()) groups.push_back(group_);
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
    good_ = good_ && axis > 0 && RankOf(*value) > 0 && !graph_.IsOutput(value) && value->producer;
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
    const bool clip = IsClip(node);
    const bool sum = node.Is(Op::kAdd) && SameShapes(node);
    if (!clip && !sum && !node.Is(Op::kRelu) && !IsPool(node)) {
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

  bool SameChannels() {
    for (Node* node : group_.makers) {
      const int64_t count = node->Is(Op::kConv)                      ? node->constant(1)->dim(0)
                            : node->Is(Op::kLayerNormalization)      ? node->constant(1)->count()
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
  std::set<const Node*> done_;
  ScalingGroup group_;
  bool good_ = true;
};

}  // namespace

std::vector<ScalingGroup> FindScalingGroups(const Graph& graph) { return Explorer(graph).Run(); }

}  // namespace requant

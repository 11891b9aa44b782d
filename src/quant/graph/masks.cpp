#include "quant/graph/masks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "ops/op.h"

namespace requant {
namespace {

constexpr float kFar = 9000;  // least magnitude of a mask, which ranges from -9999 to -infinity
constexpr float kNear =
    1000;  // other numbers of a mask are smaller, and fills of masked data larger
constexpr float kLeast = 0.5F;  // share of a fill that counts as masked, as data may be added to it

/// A value some of whose numbers are far from all others.
struct Far {
  bool everywhere;
  float magnitude;  // the least magnitude of the far numbers
};

bool IsScalar(const Value* value) {
  return value && value->is_constant() && value->constant.count() == 1 &&
         value->type.dtype == DType::kFloat32;
}

/// Whether the operator can apply a mask: a sum, a difference or a selection.
bool Joins(const Node& node) {
  constexpr std::string_view kOps[] = {"Add", "Sub", "Where", "Min", "Max"};
  return std::any_of(std::begin(kOps), std::end(kOps),
                     [&node](std::string_view op) { return node.Is(op); });
}

bool Moves(const Node& node) {
  const OpDef* op = FindOp(node);
  return op && op->fusion == FusionRule::kInjective && node.outputs.size() == 1;
}

/// Whether the slot is the input of a softmax, or of an operator like it.
bool IsSoftmaxInput(const Node& node, size_t slot) {
  if (node.Is(Op::kSoftmax) || node.Is(Op::kLogSoftmax) || node.Is(Op::kHardmax) ||
      node.Is(Op::kReduceLogSumExp)) {
    return slot == 0;
  }
  if (node.Is(Op::kAttention)) return slot == 3;
  if (node.domain != kMicrosoftDomain) return false;
  return (node.op_type == "Attention" && slot == 5) ||
         (node.op_type == "MultiHeadAttention" && slot == 5) ||
         (node.op_type == "GroupQueryAttention" && slot == 10);
}

class Finder {
 public:
  Finder(const Graph& graph, const std::set<const Value*>& soi,
         const std::set<const Node*>& statistics)
      : graph_(graph), soi_(soi), statistics_(statistics) {
    for (const auto& value : graph.values()) {
      if (value->is_constant()) FindConstant(*value);
    }
  }

  Masks Run() {
    for (const auto& node : graph_.nodes()) {
      FindFar(*node);
      FindFilled(*node);
    }
    for (auto i = graph_.nodes().rbegin(); i != graph_.nodes().rend(); ++i) FindSoftmaxed(**i);
    return std::move(masks_);
  }

 private:
  bool IsData(const Value* value) const {
    return value && !value->is_constant() && !soi_.contains(value);
  }
  std::optional<Far> FarOf(const Value* value) const {
    const auto found = far_.find(value);
    return found == far_.end() ? std::nullopt : std::optional(found->second);
  }

  void FindConstant(const Value& value) {
    if (value.type.dtype != DType::kFloat32) return;
    float least = std::numeric_limits<float>::infinity();
    int64_t far = 0;
    for (const float number : value.constant.values<float>()) {
      const float magnitude = std::fabs(number);
      if (std::isnan(number) || (magnitude > kNear && magnitude < kFar)) return;
      if (magnitude < kFar) continue;
      ++far;
      least = std::min(least, magnitude);
    }
    if (far > 0) far_[&value] = {far == value.constant.count(), least};
  }

  /// Finds masks that are computed from constants and from values that are not data.
  void FindFar(const Node& node) {
    const Value* output = node.output();
    if (output == nullptr || output->type.dtype != DType::kFloat32) return;
    if (node.Is(Op::kConstantOfShape)) {
      const Tensor* number = node.attributes.TensorValue("value");
      if (number && number->dtype() == DType::kFloat32 &&
          std::fabs(number->data<float>()[0]) >= kFar) {
        far_[output] = {true, std::fabs(number->data<float>()[0])};
      }
      return;
    }
    if (node.Is(Op::kLog) && !IsData(node.input(0))) {  // logarithm of a mask of zeros and ones
      far_[output] = {false, std::numeric_limits<float>::infinity()};
      return;
    }
    const bool data = std::any_of(node.inputs.begin(), node.inputs.end(),
                                  [this](const Value* input) { return IsData(input); });
    // Data remains a mask only if the operator moves it; masked data is FindFilled's.
    if (data && !Moves(node)) return;
    std::optional<Far> made;
    for (const Value* input : node.inputs) {
      const auto far = FarOf(input);
      if (!far) continue;
      const bool whole = far->everywhere && node.inputs.size() == 1;
      made = Far{whole && (!made || made->everywhere),
                 std::min(far->magnitude, made ? made->magnitude : far->magnitude)};
    }
    if (!made) return;
    const bool moved = Moves(node);
    if (moved) made->everywhere = FarOf(node.input(0)) && FarOf(node.input(0))->everywhere;
    if (node.Is(Op::kTrilu)) made->everywhere = false;
    constexpr std::string_view kKept[] = {"Where", "Mul", "Add",  "Sub",      "Min",
                                          "Max",   "Neg", "Cast", "Identity", "Clip"};
    const bool kept = moved || std::any_of(std::begin(kKept), std::end(kKept),
                                           [&node](std::string_view op) { return node.Is(op); });
    if (kept) far_[output] = *made;
  }

  /// Finds operators that apply a mask to data, and masked data behind operators that keep its
  /// numbers.
  void FindFilled(const Node& node) {
    const Value* output = node.output();
    if (output == nullptr || !IsData(output)) return;
    float fill = std::numeric_limits<float>::infinity();
    bool any = false;
    bool masks = false;
    bool data = false;
    for (size_t slot = node.Is(Op::kWhere) ? 1 : 0; slot < node.inputs.size(); ++slot) {
      const Value* input = node.inputs[slot];
      const auto filled = masks_.filled.find(input);
      if (filled != masks_.filled.end()) {
        any = data = true;
        fill = std::min(fill, filled->second);
      } else if (IsData(input)) {
        data = true;
      } else if (const auto far = FarOf(input); far && Joins(node)) {
        // If every element is far, the operand is a bound or a shift; only a Where selects some of
        // them.
        if (far->everywhere && !node.Is(Op::kWhere)) continue;
        any = masks = true;
        fill = std::min(fill, far->magnitude);
      }
    }
    if (!any || !data) return;
    if (masks) masks_.nodes.insert(&node);
    float factor = 1;
    if (node.Is(Op::kMul) || node.Is(Op::kDiv)) {
      const size_t slot = IsScalar(node.input(1)) ? 1 : 0;
      if (!IsScalar(node.input(slot)) || (slot == 0 && node.Is(Op::kDiv))) return;
      factor = std::fabs(node.input(slot)->constant.data<float>()[0]);
      if (node.Is(Op::kDiv)) factor = 1 / factor;
    } else if (!masks && !Moves(node) && !Joins(node) && !node.Is(Op::kMaxPool) &&
               !node.Is(Op::kNeg) && !node.Is(Op::kGlobalMaxPool) && !node.Is(Op::kReduceMax) &&
               !node.Is(Op::kConcat)) {
      return;
    }
    if (fill * factor >= kNear) masks_.filled[output] = fill * factor;
  }

  /// Finds operators that apply a mask and whose results only softmaxes read.
  void FindSoftmaxed(const Node& node) {
    const Value* output = node.output();
    if (output == nullptr || node.outputs.size() != 1 || !IsData(output) ||
        graph_.IsOutput(output) || output->consumers.empty()) {
      return;
    }
    const bool joins = Joins(node);
    int data = 0;
    bool spread = false;  // an operand with more than one element
    for (size_t slot = node.Is(Op::kWhere) ? 1 : 0; slot < node.inputs.size(); ++slot) {
      data += IsData(node.inputs[slot]);
      spread = spread ||
               (node.inputs[slot] && !IsData(node.inputs[slot]) && !IsScalar(node.inputs[slot]));
    }
    const OpDef* op = FindOp(node);
    const bool scales = data == 1 && !spread && (node.Is(Op::kMul) || node.Is(Op::kDiv));
    const bool passes = joins || scales || Moves(node) || node.Is(Op::kClip) ||
                        node.Is(Op::kCast) || node.Is(Op::kIdentity) || node.Is(Op::kDropout);
    if (op == nullptr || !passes) return;
    for (const Node* reader : output->consumers) {
      for (size_t slot = 0; slot < reader->inputs.size(); ++slot) {
        if (reader->inputs[slot] == output && !ReadsForSoftmax(*reader, slot)) return;
      }
    }
    softmaxed_.insert(&node);
    if (joins && (data > 1 || spread || node.Is(Op::kWhere))) masks_.nodes.insert(&node);
  }

  bool ReadsForSoftmax(const Node& reader, size_t slot) const {
    if (IsSoftmaxInput(reader, slot) || softmaxed_.contains(&reader)) return true;
    // A softmax that is decomposed: Exp(x - max of x) / its sum.
    if (!statistics_.contains(&reader)) return false;
    if (reader.Is(Op::kReduceMax) || reader.Is(Op::kExp)) return true;
    const Node* next = reader.Is(Op::kSub) ? graph_.SoleConsumer(reader.output()) : nullptr;
    return next && next->Is(Op::kExp);
  }

  const Graph& graph_;
  const std::set<const Value*>& soi_;
  const std::set<const Node*>& statistics_;
  std::map<const Value*, Far> far_;
  std::set<const Node*> softmaxed_;
  Masks masks_;
};

}  // namespace

Masks FindMasks(const Graph& graph, const std::set<const Value*>& soi,
                const std::set<const Node*>& statistics) {
  return Finder(graph, soi, statistics).Run();
}

Tensor WithoutMasked(const Tensor& tensor, float fill) {
  Tensor out = tensor.Clone();
  const float most = std::isinf(fill) ? std::numeric_limits<float>::max() : kLeast * fill;
  float low = std::numeric_limits<float>::infinity();
  float high = -low;
  float* data = out.data<float>();
  for (int64_t i = 0; i < out.count(); ++i) {
    if (!(std::fabs(data[i]) <= most)) continue;
    low = std::min(low, data[i]);
    high = std::max(high, data[i]);
  }
  if (low > high) low = high = 0;
  for (int64_t i = 0; i < out.count(); ++i) {
    if (std::fabs(data[i]) > most) data[i] = data[i] < 0 ? low : high;
  }
  return out;
}

}  // namespace requant

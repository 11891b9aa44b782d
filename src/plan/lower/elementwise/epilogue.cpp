#include "plan/lower/elementwise/epilogue.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "plan/lower/elementwise/qelementwise.h"

namespace requant {

std::optional<ClampBounds> ReadClamp(const Node& node) {
  ClampBounds bounds;
  if (node.Is(Op::kRelu)) {
    bounds.lo = 0;
    return bounds;
  }
  if (!node.Is(Op::kClip)) return std::nullopt;
  if (const Attribute* min = node.attributes.Find("min")) {
    if (const float* value = std::get_if<float>(min)) bounds.lo = *value;
  }
  if (const Attribute* max = node.attributes.Find("max")) {
    if (const float* value = std::get_if<float>(max)) bounds.hi = *value;
  }
  for (size_t slot = 1; slot <= 2; ++slot) {
    if (node.input(slot) == nullptr) continue;
    const Tensor* constant = node.constant(slot);
    if (constant == nullptr || constant->count() != 1) return std::nullopt;
    (slot == 1 ? bounds.lo : bounds.hi) = constant->AsDouble(0);
  }
  if (std::isnan(bounds.lo) || std::isnan(bounds.hi) || bounds.lo > bounds.hi) return std::nullopt;
  return bounds;
}

namespace {

/// The operand that `addition` adds to `own` if the step that computes `own` can add it, or null.
const Value* ResidualOf(const PlanBuilder& builder, const Node& addition, const Value* own) {
  const bool plain = addition.Is(Op::kAdd) && own->type.dtype == DType::kFloat32;
  if (!plain && !(addition.op_type == "QLinearAdd" && QAddOf(builder, addition))) return nullptr;
  const size_t b = plain ? 1 : 3;
  const Value* other = addition.inputs[addition.inputs[0] == own ? b : 0];
  const bool fits =
      other != own && builder.Has(other) && other->type.StaticShape() == own->type.StaticShape();
  return fits ? other : nullptr;
}

}  // namespace

Epilogue TakeEpilogue(PlanBuilder& builder, const Node& node, bool allow_residual,
                      const Node* first) {
  Epilogue epilogue;
  epilogue.output = node.outputs[0];
  epilogue.op = node.op_type;
  bool clamped = false;
  for (const Node* next = builder.Follower(node); next; next = builder.Follower(*next)) {
    const bool may_add = allow_residual && epilogue.residual == nullptr &&
                         !(clamped && epilogue.output->type.dtype == DType::kFloat32);
    if (const Value* other = may_add ? ResidualOf(builder, *next, epilogue.output) : nullptr) {
      epilogue.residual = other;
      epilogue.addition = next;
      epilogue.own = std::exchange(epilogue.clamp, {});
    } else if (const auto bounds = ReadClamp(*next); bounds && next->inputs[0] == epilogue.output) {
      // The clamps apply one after the other: where they disagree, the later one decides.
      epilogue.clamp.lo = std::clamp(epilogue.clamp.lo, bounds->lo, bounds->hi);
      epilogue.clamp.hi = std::clamp(epilogue.clamp.hi, bounds->lo, bounds->hi);
      clamped = true;
    } else {
      break;
    }
    builder.Absorb(next, first ? *first : node);
    epilogue.op += "+" + next->op_type;
    epilogue.output = next->outputs[0];
  }
  if (epilogue.residual == nullptr) epilogue.own = epilogue.clamp;
  return epilogue;
}

}  // namespace requant

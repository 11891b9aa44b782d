#include "ops/quantized/qlinear.h"

#include <cfloat>
#include <cmath>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"

namespace requant {
namespace {

std::string NameOf(const Node& node, size_t slot) {
  const Value* value = node.input(slot);
  return value ? value->name : "";
}

void CheckZeroDType(const Node& node, size_t slot, DType zero, DType wanted) {
  if (wanted == DType::kUndefined || zero == DType::kUndefined || zero == wanted) return;
  Fail(ErrorCode::kTypeMismatch,
       StrCat("the zero point '", NameOf(node, slot), "' of ", node.op_type, " is ",
              DTypeName(zero), " but its values are ", DTypeName(wanted)),
       {.node = node.name, .value = NameOf(node, slot)});
}

void CheckEntries(const Node& node, size_t slot, int64_t have, int64_t count) {
  if (have == 1 || have == count) return;
  Fail(ErrorCode::kShapeMismatch,
       StrCat("'", NameOf(node, slot), "' of ", node.op_type, " has ", have,
              " quantization parameters where 1", count == 1 ? "" : StrCat(" or ", count),
              " must be"),
       {.node = node.name, .value = NameOf(node, slot)});
}

}  // namespace

void CheckScales(const Node& node, size_t slot, const Tensor& scales, ScaleRule rule) {
  if (scales.dtype() == DType::kFloat32) {
    // Every inference of types comes here, so this loop has no calls.
    const float* at = scales.data<float>();
    const float* end = at + scales.count();
    const bool zeros = rule == ScaleRule::kPositiveOrZero;
    while (at < end && (*at > 0 || (zeros && *at == 0)) && *at <= FLT_MAX) ++at;
    if (at == end) return;
  }
  for (int64_t i = 0; i < scales.count(); ++i) {
    const double scale = scales.AsDouble(i);
    const bool fits = scale > 0 || (scale == 0 && rule == ScaleRule::kPositiveOrZero);
    if (fits && std::isfinite(scale)) continue;
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("scale '", NameOf(node, slot), "' of ", node.op_type, " is ", scale),
         {.node = node.name,
          .value = NameOf(node, slot),
          .hint = "scales must be positive and finite"});
  }
}

QuantOperand ReadOperand(const EvalContext& context, DType dtype, size_t scale_slot,
                         size_t zero_slot, int64_t count, ScaleRule rule) {
  const Tensor& scale = context.input(scale_slot);
  CheckScales(context.node, scale_slot, scale, rule);
  CheckEntries(context.node, scale_slot, scale.count(), count);
  QuantOperand out{scale.ToFloats(), {0}};
  if (context.has(zero_slot)) {
    const Tensor& zero = context.input(zero_slot);
    CheckZeroDType(context.node, zero_slot, zero.dtype(), dtype);
    CheckEntries(context.node, zero_slot, zero.count(), count);
    out.zeros.clear();
    for (const int64_t value : zero.ToInts()) out.zeros.push_back(static_cast<int32_t>(value));
  }
  return out;
}

void CheckOperand(const InferContext& context, DType dtype, size_t scale_slot, size_t zero_slot,
                  const Dim& count, ScaleRule rule) {
  RequireInput(context, scale_slot);
  RequireDType(context, scale_slot, {DType::kFloat32});
  if (const Tensor* scale = context.constant(scale_slot)) {
    CheckScales(context.node, scale_slot, *scale, rule);
    if (count.known()) CheckEntries(context.node, scale_slot, scale->count(), count.value);
  }
  if (!context.has(zero_slot)) return;
  CheckZeroDType(context.node, zero_slot, context.inputs[zero_slot].dtype, dtype);
  if (const Tensor* zero = context.constant(zero_slot); zero != nullptr && count.known()) {
    CheckEntries(context.node, zero_slot, zero->count(), count.value);
  }
}

DType QuantizedDType(const InferContext& context, size_t zero_slot, DType fallback) {
  return context.has(zero_slot) ? context.inputs[zero_slot].dtype : fallback;
}

DType QuantizedDType(const EvalContext& context, size_t zero_slot, DType fallback) {
  return context.has(zero_slot) ? context.input(zero_slot).dtype() : fallback;
}

ByteScale ToByteScale(const QuantOperand& operand, DType dtype) {
  return {operand.scales[0], operand.zeros[0], dtype == DType::kInt8};
}

std::vector<int32_t> CenteredValues(const Tensor& tensor, int32_t zero) {
  if (!IsByte(tensor.dtype())) {
    Fail(ErrorCode::kTypeMismatch,
         StrCat("a ", DTypeName(tensor.dtype()), " tensor where int8 or uint8 is needed"));
  }
  std::vector<int32_t> out(static_cast<size_t>(tensor.count()));
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = LoadByte(tensor.raw(), tensor.dtype(), static_cast<int64_t>(i)) - zero;
  }
  return out;
}

int32_t ByteMin(DType dtype) { return dtype == DType::kInt8 ? -128 : 0; }
int32_t ByteMax(DType dtype) { return dtype == DType::kInt8 ? 127 : 255; }

}  // namespace requant

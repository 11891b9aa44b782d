// Integer operators that are tables of 256 entries: com.microsoft::QLinearConcat (a change of scale
// per input; ONNX Runtime docs/ContribOperators.md) and ai.requant::Lut.
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/affine.h"
#include "ops/infer_util.h"
#include "ops/quantized/qlinear.h"
#include "ops/shape/concat.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {

void RequireBytes(const Tensor& tensor, const Node& node) {
  if (IsByte(tensor.dtype())) return;
  Fail(ErrorCode::kTypeMismatch,
       StrCat(node.op_type, " of ", DTypeName(tensor.dtype()), " where int8 or uint8 is needed"));
}

Tensor LookUp(const Tensor& x, const void* table, DType dtype) {
  const size_t element = ElementBytes(dtype);
  Tensor out(dtype, x.shape());
  const auto* from = static_cast<const uint8_t*>(x.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (size_t i = 0; i < static_cast<size_t>(x.count()); ++i) {
    std::memcpy(to + i * element, static_cast<const uint8_t*>(table) + from[i] * element, element);
  }
  return out;
}

namespace {

// --- QLinearConcat: Y scale, Y zero, then (X, scale, zero) of each input

size_t ConcatInputs(size_t slots) {
  if (slots < 5 || (slots - 2) % 3 != 0) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("QLinearConcat has ", slots, " inputs, which are no triples after the first two"));
  }
  return (slots - 2) / 3;
}

void InferQLinearConcat(InferContext& context) {
  const size_t count = ConcatInputs(context.inputs.size());
  RequireDType(context, 1, {DType::kInt8, DType::kUint8});
  CheckOperand(context, DType::kUndefined, 0, 1);
  for (size_t i = 0; i < count; ++i) {
    const size_t slot = 2 + 3 * i;
    RequireDType(context, slot, {DType::kInt8, DType::kUint8});
    CheckOperand(context, context.inputs[slot].dtype, slot + 1, slot + 2);
  }
  SetOutput(context, 0, context.has(1) ? context.inputs[1].dtype : context.inputs[2].dtype,
            ConcatShape(context, 2, 3));
}

void EvaluateQLinearConcat(EvalContext& context) {
  const size_t count = ConcatInputs(context.inputs.size());
  const DType dtype = QuantizedDType(context, 1, context.input(2).dtype());
  const ByteScale to = ToByteScale(ReadOperand(context, dtype, 0, 1), dtype);
  std::vector<Tensor> parts;
  for (size_t i = 0; i < count; ++i) {
    const size_t slot = 2 + 3 * i;
    const Tensor& x = context.input(slot);
    RequireBytes(x, context.node);
    const ByteScale from =
        ToByteScale(ReadOperand(context, x.dtype(), slot + 1, slot + 2), x.dtype());
    parts.push_back(LookUp(x, MakeRescaleTable(from, to).data(), dtype));
  }
  std::vector<const Tensor*> pointers;
  for (const Tensor& part : parts) pointers.push_back(&part);
  context.outputs[0] = Concatenate(context.node, pointers);
}

// --- Lut: x, table of 256 entries

void InferLut(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireDType(context, 1, {DType::kInt8, DType::kUint8, DType::kFloat32});
  RequireRank(context, 1, 1);
  if (const SymbolicShape* table = context.shape(1)) {
    MergeDims((*table)[0], Dim(256), "the entries of a Lut");
  }
  SetOutput(context, 0, context.inputs[1].dtype, context.inputs[0].shape);
}

void EvaluateLut(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& table = context.input(1);
  RequireBytes(x, context.node);
  if (table.count() != 256) {
    Fail(ErrorCode::kShapeMismatch, StrCat("a Lut of ", table.count(), " entries instead of 256"));
  }
  context.outputs[0] = LookUp(x, table.raw(), table.dtype());
}

constexpr OpDef kRows[] = {
    OnIntegers({"QLinearConcat", kMicrosoftDomain, 1, 5, kVariadic, 1, InferQLinearConcat,
                EvaluateQLinearConcat, QuantRule::kFloat, FusionRule::kInjective}),
    OnIntegers({"Lut", kRequantDomain, 1, 2, 2, 1, InferLut, EvaluateLut, QuantRule::kFloat,
                FusionRule::kBroadcast}),
};

}  // namespace

std::span<const OpDef> QLinearUnaryOps() { return kRows; }

}  // namespace requant

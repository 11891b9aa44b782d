// Integer operators that are tables of 256 entries: com.microsoft::QLinearConcat (a change of scale
// per input; ONNX Runtime docs/ContribOperators.md) and ai.requant::Lut.
#include <cstring>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/affine.h"
#include "ops/infer_util.h"
#include "ops/qlinear.h"
#include "ops/select.h"
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
  std::optional<SymbolicShape> shape;
  Dim total = 0;
  bool ranks_known = true;
  for (size_t i = 0; i < count; ++i) {
    const size_t slot = 2 + 3 * i;
    RequireDType(context, slot, {DType::kInt8, DType::kUint8});
    CheckOperand(context, context.inputs[slot].dtype, slot + 1, slot + 2);
    const SymbolicShape* x = context.shape(slot);
    if (x == nullptr) {
      ranks_known = false;
      continue;
    }
    const auto axis = static_cast<size_t>(
        NormalizeAxis(context.attributes().Int("axis", 1), static_cast<int64_t>(x->size())));
    if (!shape) shape = SymbolicShape(x->size());
    if (shape->size() != x->size()) {
      Fail(ErrorCode::kShapeMismatch, StrCat("QLinearConcat of tensors with ", shape->size(),
                                             " and ", x->size(), " dimensions"));
    }
    const Dim& dim = (*x)[axis];
    total = total.known() && dim.known() ? Dim(CheckedAdd64(total.value, dim.value)) : Dim();
    for (size_t d = 0; d < x->size(); ++d) {
      if (d == axis) continue;
      (*shape)[d] =
          MergeDims((*shape)[d], (*x)[d], StrCat("the inputs of QLinearConcat at dimension ", d));
    }
    (*shape)[axis] = total;
  }
  if (!ranks_known) shape.reset();
  SetOutput(context, 0, context.has(1) ? context.inputs[1].dtype : context.inputs[2].dtype, shape);
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
  const Tensor& first = parts[0];
  const int64_t axis = NormalizeAxis(context.attributes().Int("axis", 1), first.rank());
  Shape shape = first.shape();
  for (size_t i = 1; i < count; ++i) {
    bool fits = parts[i].rank() == first.rank();
    for (int64_t d = 0; fits && d < first.rank(); ++d) {
      fits = d == axis || parts[i].dim(d) == first.dim(d);
    }
    if (!fits) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat("QLinearConcat along axis ", axis, " of ", ShapeToString(first.shape()), " and ",
                  ShapeToString(parts[i].shape())));
    }
    int64_t& total = shape[static_cast<size_t>(axis)];
    total = CheckedAdd64(total, parts[i].dim(axis));
  }
  Tensor out(dtype, shape);
  auto* bytes = static_cast<uint8_t*>(out.raw());
  const int64_t outer = NumElements(Shape(shape.begin(), shape.begin() + axis));
  for (int64_t row = 0; row < outer; ++row) {
    for (const Tensor& part : parts) {
      const auto length = static_cast<size_t>(part.count() / outer);
      if (length == 0) continue;
      std::memcpy(bytes,
                  static_cast<const uint8_t*>(part.raw()) + static_cast<size_t>(row) * length,
                  length);
      bytes += length;
    }
  }
  context.outputs[0] = out;
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
    {"QLinearConcat", kMicrosoftDomain, 1, 5, kVariadic, 1, InferQLinearConcat,
     EvaluateQLinearConcat, QuantRule::kFloat, FusionRule::kInjective},
    {"Lut", kRequantDomain, 1, 2, 2, 1, InferLut, EvaluateLut, QuantRule::kFloat,
     FusionRule::kBroadcast},
};

}  // namespace

std::span<const OpDef> QLinearUnaryOps() { return kRows; }

}  // namespace requant

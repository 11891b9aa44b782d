// Integer operators that are tables of 256 entries: com.microsoft::QLinearSigmoid,
// QLinearLeakyRelu, QLinearConcat (a change of scale per input), ai.requant::Lut; and
// QLinearSoftmax, which goes through float. Inputs of the unary ones: X, scale, zero, Y scale, zero
// (ONNX Runtime docs/ContribOperators.md).
#include <algorithm>
#include <cmath>
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
namespace {

constexpr size_t kYScale = 3;
constexpr size_t kYZero = 4;

void InferQLinearUnary(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireDType(context, kYZero, {DType::kInt8, DType::kUint8});
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, DType::kUndefined, kYScale, kYZero);
  SetOutput(context, 0, QuantizedDType(context, kYZero, context.inputs[0].dtype),
            context.inputs[0].shape);
}

void RequireBytes(const Tensor& tensor, const Node& node) {
  if (IsByte(tensor.dtype())) return;
  Fail(ErrorCode::kTypeMismatch,
       StrCat(node.op_type, " of ", DTypeName(tensor.dtype()), " where int8 or uint8 is needed"));
}

/// `table` holds 256 elements; the index is the bit pattern.
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

template <typename Function>
void EvaluateByTable(EvalContext& context, Function&& function) {
  const Tensor& x = context.input(0);
  RequireBytes(x, context.node);
  const DType dtype = QuantizedDType(context, kYZero, x.dtype());
  const ByteTable table =
      MakeByteTable(ToByteScale(ReadOperand(context, x.dtype(), 1, 2), x.dtype()),
                    ToByteScale(ReadOperand(context, dtype, kYScale, kYZero), dtype), function);
  context.outputs[0] = LookUp(x, table.data(), dtype);
}

void EvaluateQLinearSigmoid(EvalContext& context) {
  EvaluateByTable(context, [](float real) { return 1.0F / (1.0F + std::exp(-real)); });
}

void EvaluateQLinearLeakyRelu(EvalContext& context) {
  const float alpha = context.attributes().Float("alpha", 0.01F);
  EvaluateByTable(context, [alpha](float real) { return real >= 0 ? real : alpha * real; });
}

// --- QLinearSoftmax

void InferQLinearSoftmax(InferContext& context) {
  if (const SymbolicShape* x = context.shape(0)) {
    NormalizeAxis(context.attributes().Int("axis", -1), static_cast<int64_t>(x->size()));
  }
  InferQLinearUnary(context);
}

void EvaluateQLinearSoftmax(EvalContext& context) {
  const Tensor& x = context.input(0);
  RequireBytes(x, context.node);
  const DType dtype = QuantizedDType(context, kYZero, x.dtype());
  const QuantOperand qx = ReadOperand(context, x.dtype(), 1, 2);
  const ByteScale to = ToByteScale(ReadOperand(context, dtype, kYScale, kYZero), dtype);
  const auto axis =
      static_cast<size_t>(NormalizeAxis(context.attributes().Int("axis", -1), x.rank()));
  // Softmax before opset 13 runs over everything from the axis on; attribute `opset` says which.
  const bool flat = context.attributes().Int("opset", 13) < 13;
  const auto from = x.shape().begin() + static_cast<std::ptrdiff_t>(axis);
  const int64_t length = flat ? NumElements(Shape(from, x.shape().end())) : *from;
  const int64_t inner = flat ? 1 : NumElements(Shape(from + 1, x.shape().end()));
  Tensor out(dtype, x.shape());
  const std::vector<int32_t> values = CenteredValues(x, 0);
  const int64_t rows = x.count() > 0 ? x.count() / length : 0;
  std::vector<float> terms(static_cast<size_t>(length));
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t start = row / inner * length * inner + row % inner;
    const auto at = [&](int64_t i) { return static_cast<size_t>(start + i * inner); };
    int32_t largest = values[at(0)];
    for (int64_t i = 1; i < length; ++i) largest = std::max(largest, values[at(i)]);
    double total = 0;
    for (int64_t i = 0; i < length; ++i) {
      const float term = std::exp(qx.scales[0] * static_cast<float>(values[at(i)] - largest));
      terms[static_cast<size_t>(i)] = term;
      total += term;
    }
    for (int64_t i = 0; i < length; ++i) {
      const auto real = static_cast<float>(terms[static_cast<size_t>(i)] / total);
      StoreByte(out.raw(), static_cast<int64_t>(at(i)), QuantizeByte(real, to, to.Min(), to.Max()));
    }
  }
  context.outputs[0] = out;
}

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
    {"QLinearSigmoid", kMicrosoftDomain, 1, 4, 5, 1, InferQLinearUnary, EvaluateQLinearSigmoid,
     QuantRule::kFloat},
    {"QLinearLeakyRelu", kMicrosoftDomain, 1, 4, 5, 1, InferQLinearUnary, EvaluateQLinearLeakyRelu,
     QuantRule::kFloat},
    {"QLinearSoftmax", kMicrosoftDomain, 1, 4, 5, 1, InferQLinearSoftmax, EvaluateQLinearSoftmax,
     QuantRule::kFloat},
    {"QLinearConcat", kMicrosoftDomain, 1, 5, kVariadic, 1, InferQLinearConcat,
     EvaluateQLinearConcat, QuantRule::kFloat},
    {"Lut", kRequantDomain, 1, 2, 2, 1, InferLut, EvaluateLut, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> QLinearUnaryOps() { return kRows; }

}  // namespace requant

// com.microsoft::GatherBlockQuantized: gathers slices of a table of few bits, which stays packed;
// only what is gathered becomes floats (onnxruntime docs/ContribOperators.md). Neighbors along the
// quantized axis share a scale and a zero point, block by block.
#include <bit>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/shape/select.h"
#include "ops/table.h"

namespace requant {
namespace {

struct BlockForm {
  int64_t bits;
  int64_t block;
  int64_t packed;  // codes in each stored element
  size_t gather, quantize;
};

/// The form of a node. Throws kInvalidModel for a wrong axis, kUnsupported for axes that do not fit
/// the data: bytes hold 2, 4 or 8 bits, are gathered along the first axis and quantized along the
/// last one.
BlockForm FormOf(const AttributeMap& attributes, DType dtype, int64_t rank) {
  BlockForm form{
      attributes.Int("bits", 4),
      attributes.Int("block_size", 128),
      1,
      static_cast<size_t>(NormalizeAxis(attributes.Int("gather_axis", 0), rank)),
      static_cast<size_t>(NormalizeAxis(attributes.Int("quantize_axis", 1), rank)),
  };
  const bool bytes = dtype == DType::kUint8;
  if (bytes && form.bits > 0) form.packed = 8 / form.bits;
  if (form.block < 16 || !std::has_single_bit(static_cast<uint64_t>(form.block)) ||
      (form.bits != 4 && (!bytes || (form.bits != 2 && form.bits != 8))) ||
      (bytes && (form.gather != 0 || rank < 2 || form.quantize != static_cast<size_t>(rank) - 1))) {
    Fail(ErrorCode::kUnsupported,
         StrCat("GatherBlockQuantized of ", DTypeName(dtype), " along axis ", form.gather, " with ",
                form.bits, " bits in blocks of ", form.block, " along axis ", form.quantize),
         {.hint = "use blocks of a power of two from 16 on"});
  }
  return form;
}

/// The output's shape; `data` is the stored shape.
SymbolicShape PickedShape(const BlockForm& form, SymbolicShape data, const SymbolicShape& indices) {
  data.back() = MultiplyDims(data.back(), form.packed);
  const auto at = data.erase(data.begin() + static_cast<std::ptrdiff_t>(form.gather));
  data.insert(at, indices.begin(), indices.end());
  return data;
}

/// Throws kShapeMismatch unless every block has a scale and a zero point (`zeros` may be null).
void CheckBlocks(const BlockForm& form, const Shape& data, const Shape& scales,
                 const Shape* zeros) {
  Shape wanted = data;
  int64_t& blocks = wanted[form.quantize];
  blocks = CheckedMul64(blocks, form.packed);
  blocks = blocks / form.block + (blocks % form.block != 0);
  const bool scaled = scales == wanted;
  blocks = (blocks + form.packed - 1) / form.packed;
  if (scaled && (zeros == nullptr || *zeros == wanted)) return;
  Fail(ErrorCode::kShapeMismatch,
       StrCat("GatherBlockQuantized of ", ShapeToString(data), " in blocks of ", form.block,
              " with scales of ", ShapeToString(scales)));
}

void InferGatherBlockQuantized(InferContext& context) {
  RequireDType(context, 0, {DType::kUint8, DType::kUint4, DType::kInt4});
  RequireDType(context, 1, {DType::kInt32, DType::kInt64});
  RequireDType(context, 2, {DType::kFloat32, DType::kFloat16});
  RequireSameDType(context, 0, 3);
  std::optional<SymbolicShape> shape;
  const ValueType& data = context.inputs[0];
  if (data.shape && data.dtype != DType::kUndefined) {
    const BlockForm form =
        FormOf(context.attributes(), data.dtype, static_cast<int64_t>(data.shape->size()));
    if (const SymbolicShape* indices = context.shape(1)) {
      shape = PickedShape(form, *data.shape, *indices);
    }
    if (data.IsStatic() && context.inputs[2].IsStatic()) {
      CheckBlocks(form, data.StaticShape(), context.inputs[2].StaticShape(), nullptr);
    }
  }
  SetOutput(context, 0, context.inputs[2].dtype, std::move(shape));
}

/// Code i of codes that are `bits` wide and lie one after the other, the first in the lowest bits.
int32_t CodeAt(const Tensor& tensor, int64_t bits, int64_t i) {
  const int64_t bit = i * bits;
  const int32_t code =
      (static_cast<const uint8_t*>(tensor.raw())[bit / 8] >> (bit % 8)) & ((1 << bits) - 1);
  return tensor.dtype() == DType::kInt4 && code >= 8 ? code - 16 : code;
}

void EvaluateGatherBlockQuantized(EvalContext& context) {
  const Tensor& data = context.input(0);
  const Tensor& indices = context.input(1);
  const Tensor& scales = context.input(2);
  const Tensor* zeros = context.has(3) ? &context.input(3) : nullptr;
  const BlockForm form = FormOf(context.attributes(), data.dtype(), data.rank());
  CheckBlocks(form, data.shape(), scales.shape(), zeros ? &zeros->shape() : nullptr);
  const ValueType type{DType::kFloat32,
                       PickedShape(form, ToSymbolic(data.shape()), ToSymbolic(indices.shape()))};
  Shape shape = data.shape();
  shape.back() *= form.packed;
  const int64_t rows = shape[form.gather];                     // rows that can be gathered
  const int64_t length = RowMajorStrides(shape)[form.gather];  // elements of one row
  const int64_t size = shape[form.quantize];  // size of the axis that is quantized in blocks
  const int64_t inner = RowMajorStrides(shape)[form.quantize];  // steps between elements of a block
  const int64_t blocks = scales.shape()[form.quantize];
  const int64_t zero_row = (blocks + form.packed - 1) / form.packed * form.packed;
  const int32_t middle = data.dtype() == DType::kUint8 ? 1 << (form.bits - 1) : 0;
  Tensor out(DType::kFloat32, type.StaticShape());
  // The table may have many more scales than the rows that are gathered.
  const float* floats = scales.dtype() == DType::kFloat32 ? scales.data<float>() : nullptr;
  const auto factor = [&](int64_t i) {
    return floats ? floats[i] : static_cast<float>(scales.AsDouble(i));
  };
  const std::vector<int64_t> picked = indices.ToInts();
  float* to = out.data<float>();
  const int64_t outer =
      NumElements(Shape(shape.begin(), shape.begin() + static_cast<std::ptrdiff_t>(form.gather)));
  for (int64_t o = 0; o < outer; ++o) {
    for (const int64_t index : picked) {
      const int64_t row = ResolveIndex(index, rows, "GatherBlockQuantized");
      const int64_t first = (o * rows + row) * length;
      for (int64_t i = first; i < first + length; ++i) {
        const int64_t line = i / inner / size;
        const int64_t block = i / inner % size / form.block;
        const int64_t rest = i % inner;
        // Zero points in packed bytes begin a new byte with every line, which then has no inner
        // axis.
        const int32_t zero =
            zeros ? CodeAt(*zeros, form.bits, (line * zero_row + block) * inner + rest) : middle;
        *to++ = static_cast<float>(CodeAt(data, form.bits, i) - zero) *
                factor((line * blocks + block) * inner + rest);
      }
    }
  }
  context.outputs[0] = CastTensor(out, scales.dtype());
}

constexpr OpDef kRows[] = {
    {"GatherBlockQuantized", kMicrosoftDomain, 1, 3, 4, 1, InferGatherBlockQuantized,
     EvaluateGatherBlockQuantized, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> GatherBlockQuantizedOps() { return kRows; }

}  // namespace requant

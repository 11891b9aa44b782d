// QuantizeLinear, DequantizeLinear (per tensor, per axis, blocked), and the two of com.microsoft
// (onnx docs/Operators.md, numeric/affine.h).
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/affine.h"
#include "ops/elementwise/cast.h"
#include "ops/infer_util.h"
#include "ops/quantized/qlinear.h"
#include "ops/table.h"

namespace requant {
namespace {

/// Maps elements to their scales.
class ScaleMap {
 public:
  /// Throws kShapeMismatch when the scales fit neither the tensor, its axis nor its blocks.
  ScaleMap(const AttributeMap& attributes, const Shape& shape, const Shape& scale) {
    const int64_t count = NumElements(scale);
    const auto rank = static_cast<int64_t>(shape.size());
    if (count == 1 && scale.size() <= 1) return;
    // A tensor without dimensions has no axis, so only the per-tensor case remains.
    const auto axis = static_cast<size_t>(NormalizeAxis(attributes.Int("axis", 1), rank));
    dim_ = shape[axis];
    inner_ = NumElements(Shape(shape.begin() + static_cast<std::ptrdiff_t>(axis) + 1, shape.end()));
    const int64_t block = attributes.Int("block_size", 0);
    if (block > 0) {
      Shape expected = shape;
      expected[axis] = dim_ / block + (dim_ % block != 0);
      if (scale == expected) {
        block_ = block;
        blocks_ = expected[axis];
        return;
      }
    } else if (scale.size() == 1 && count == dim_) {
      per_axis_ = true;
      return;
    }
    Fail(
        ErrorCode::kShapeMismatch,
        StrCat("scales of ", ShapeToString(scale), " do not fit a tensor of ", ShapeToString(shape),
               " quantized along axis ", axis, block > 0 ? StrCat(" in blocks of ", block) : ""));
  }

  size_t operator[](int64_t i) const {
    if (per_axis_) return static_cast<size_t>(i / inner_ % dim_);
    if (block_ == 0) return 0;
    const int64_t outer = i / (inner_ * dim_);
    const int64_t along = i / inner_ % dim_;
    return static_cast<size_t>((outer * blocks_ + along / block_) * inner_ + i % inner_);
  }

 private:
  bool per_axis_ = false;
  int64_t block_ = 0;
  int64_t blocks_ = 1;
  int64_t dim_ = 1;
  int64_t inner_ = 1;
};

/// DequantizeLinear does not divide by its scale, which may therefore be 0.
ScaleRule RuleOf(const Node& node) {
  return node.op_type == "DequantizeLinear" ? ScaleRule::kPositiveOrZero : ScaleRule::kPositive;
}

/// Checks that a 1-D list of scales has the size of the axis; other forms are checked at run time.
void CheckScaleShape(const InferContext& context) {
  const SymbolicShape* input = context.shape(0);
  const SymbolicShape* scale = context.shape(1);
  if (context.has(2) && context.shape(2) != nullptr && scale != nullptr) {
    const auto count = [](const SymbolicShape& s) { return ProductOfDims(s, 0, s.size()); };
    MergeDims(count(*scale), count(*context.shape(2)), "the numbers of scales and zero points");
  }
  if (input != nullptr && scale != nullptr && context.inputs[0].IsStatic() &&
      context.inputs[1].IsStatic()) {
    ScaleMap(context.attributes(), context.inputs[0].StaticShape(),
             context.inputs[1].StaticShape());
  }
  if (context.constant(1)) CheckScales(context.node, 1, *context.constant(1), RuleOf(context.node));
}

struct QuantParams {
  std::vector<float> scales;
  std::vector<int64_t> zeros;  // empty: all 0
  int64_t ZeroAt(size_t i) const { return zeros.empty() ? 0 : zeros[i]; }
};

QuantParams ReadParams(const EvalContext& context) {
  CheckScales(context.node, 1, context.input(1), RuleOf(context.node));
  QuantParams out{context.input(1).ToFloats(), {}};
  if (context.has(2)) {
    out.zeros = context.input(2).ToInts();
    if (out.zeros.size() != out.scales.size()) {
      Fail(ErrorCode::kShapeMismatch,
           StrCat(out.scales.size(), " scales but ", out.zeros.size(), " zero points"));
    }
  }
  return out;
}

// --- QuantizeLinear

DType QuantizeTarget(const AttributeMap& attributes, DType zero_point) {
  DType dtype = zero_point;
  if (dtype == DType::kUndefined) {
    const int64_t wanted = attributes.Int("output_dtype", 0);
    dtype = wanted == 0                  ? DType::kUint8
            : wanted > 0 && wanted < 256 ? static_cast<DType>(wanted)
                                         : DType::kUndefined;
  }
  if (!IsFloat8(dtype) && (!IsInteger(dtype) || DTypeBits(dtype) > 16)) {
    Fail(ErrorCode::kUnsupported, StrCat("QuantizeLinear to ", DTypeName(dtype)),
         {.hint = "2, 4, 8 and 16 bit integers and the four float8 types are supported"});
  }
  return dtype;
}

QuantizedRange RangeOf(DType dtype) {
  const bool is_signed = dtype == DType::kInt2 || dtype == DType::kInt4 || dtype == DType::kInt8 ||
                         dtype == DType::kInt16;
  return RangeOfBits(DTypeBits(dtype), is_signed);
}

void InferQuantizeLinear(InferContext& context) {
  RequireDType(
      context, 0,
      {DType::kFloat32, DType::kFloat16, DType::kBfloat16, DType::kFloat64, DType::kInt32});
  CheckScaleShape(context);
  DType zero = DType::kUndefined;
  if (context.has(2)) {
    zero = context.inputs[2].dtype;
    if (zero == DType::kUndefined) return SetOutput(context, 0, zero, context.inputs[0].shape);
  }
  SetOutput(context, 0, QuantizeTarget(context.attributes(), zero), context.inputs[0].shape);
}

void EvaluateQuantizeLinear(EvalContext& context) {
  const Tensor& x = context.input(0);
  const DType dtype = QuantizeTarget(context.attributes(),
                                     context.has(2) ? context.input(2).dtype() : DType::kUndefined);
  const QuantParams params = ReadParams(context);
  const ScaleMap map(context.attributes(), x.shape(), context.input(1).shape());
  if (IsFloat8(dtype)) {
    Tensor scaled(DType::kFloat32, x.shape());
    for (int64_t i = 0; i < x.count(); ++i) {
      scaled.data<float>()[i] = static_cast<float>(x.AsDouble(i)) / params.scales[map[i]];
    }
    const bool saturate = context.attributes().Int("saturate", 1) != 0;
    context.outputs[0] = CastTensor(scaled, dtype, saturate);
    return;
  }
  const QuantizedRange range = RangeOf(dtype);
  Tensor out(DType::kInt32, x.shape());
  int32_t* to = out.data<int32_t>();
  for (int64_t i = 0; i < x.count(); ++i) {
    const size_t p = map[i];
    to[i] = QuantizeLinear(static_cast<float>(x.AsDouble(i)), params.scales[p],
                           static_cast<int32_t>(params.ZeroAt(p)), range);
  }
  context.outputs[0] = CastTensor(out, dtype);
}

// --- DequantizeLinear

DType DequantizeTarget(const AttributeMap& attributes, DType scale) {
  const int64_t wanted = attributes.Int("output_dtype", 0);
  const DType dtype = wanted > 0 && wanted < 256 ? static_cast<DType>(wanted) : scale;
  if (dtype != DType::kUndefined && !IsFloat(dtype)) {
    Fail(ErrorCode::kTypeMismatch, StrCat("DequantizeLinear to ", DTypeName(dtype)));
  }
  return dtype;
}

void InferDequantizeLinear(InferContext& context) {
  RequireDType(context, 0,
               {DType::kInt2, DType::kUint2, DType::kInt4, DType::kUint4, DType::kInt8,
                DType::kUint8, DType::kInt16, DType::kUint16, DType::kInt32, DType::kFloat8E4M3FN,
                DType::kFloat8E4M3FNUZ, DType::kFloat8E5M2, DType::kFloat8E5M2FNUZ});
  RequireSameDType(context, 0, 2);
  CheckScaleShape(context);
  SetOutput(context, 0, DequantizeTarget(context.attributes(), context.inputs[1].dtype),
            context.inputs[0].shape);
}

void EvaluateDequantizeLinear(EvalContext& context) {
  const Tensor& x = context.input(0);
  if (!IsInteger(x.dtype()) && !IsFloat8(x.dtype())) {
    Fail(ErrorCode::kTypeMismatch, StrCat("DequantizeLinear of ", DTypeName(x.dtype())));
  }
  const QuantParams params = ReadParams(context);
  const ScaleMap map(context.attributes(), x.shape(), context.input(1).shape());
  Tensor out(DType::kFloat32, x.shape());
  float* to = out.data<float>();
  for (int64_t i = 0; i < x.count(); ++i) {
    const size_t p = map[i];
    to[i] = IsFloat8(x.dtype())
                ? static_cast<float>(x.AsDouble(i)) * params.scales[p]
                : DequantizeLinear(static_cast<int32_t>(x.AsInt64(i)), params.scales[p],
                                   static_cast<int32_t>(params.ZeroAt(p)));
  }
  context.outputs[0] =
      CastTensor(out, DequantizeTarget(context.attributes(), context.input(1).dtype()));
}

constexpr OpDef kRows[] = {
    Expensive({"QuantizeLinear", "", 10, 2, 3, 1, InferQuantizeLinear, EvaluateQuantizeLinear,
               QuantRule::kFloat, FusionRule::kBroadcast}),
    {"DequantizeLinear", "", 10, 2, 3, 1, InferDequantizeLinear, EvaluateDequantizeLinear,
     QuantRule::kFloat, FusionRule::kBroadcast},
    {"QuantizeLinear", kMicrosoftDomain, 1, 2, 3, 1, InferQuantizeLinear, EvaluateQuantizeLinear,
     QuantRule::kFloat, FusionRule::kBroadcast},
    {"DequantizeLinear", kMicrosoftDomain, 1, 2, 3, 1, InferDequantizeLinear,
     EvaluateDequantizeLinear, QuantRule::kFloat, FusionRule::kBroadcast},
};

}  // namespace

std::span<const OpDef> QuantizeOps() { return kRows; }

}  // namespace requant

// ConvInteger and QLinearConv (onnx docs/Operators.md). Padding counts as the input's zero point,
// so it is 0 once the zero point is subtracted.
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "numeric/multiplier.h"
#include "numeric/requantize_prepare.h"
#include "ops/convolution/convolve.h"
#include "ops/quantized/qlinear.h"
#include "ops/table.h"

namespace requant {
namespace {

struct ConvOperands {
  const Tensor& x;
  int32_t x_zero;
  const Tensor& w;
  std::vector<int32_t> w_zeros;  // one, or one per output channel
  const Tensor* bias;            // int32 or nullptr
};

/// Calls `store(index, accumulator, channel)` for every output; returns the output's shape.
template <typename Store, typename Begin>
void Convolve(const AttributeMap& attributes, const ConvOperands& in, Begin&& begin,
              Store&& store) {
  const SymbolicShape weight_shape = ToSymbolic(in.w.shape());
  const SymbolicShape bias_shape = in.bias ? ToSymbolic(in.bias->shape()) : SymbolicShape{};
  const ValueType type{DType::kInt32,
                       ConvOutputShape(attributes, ToSymbolic(in.x.shape()), &weight_shape,
                                       in.bias ? &bias_shape : nullptr)};
  const Shape shape = type.StaticShape();
  begin(shape);
  if (NumElements(shape) == 0) return;
  const Geometry g = PlaceGeometry(ConvWindow(attributes, in.w.shape()), in.x.shape());
  const int64_t channels = in.w.dim(0);
  const int64_t depth = in.w.dim(1);
  const int64_t per_group = channels / attributes.Int("group", 1);
  const std::vector<int32_t> centered = CenteredValues(in.x, in.x_zero);
  const std::vector<double> x(centered.begin(), centered.end());
  std::vector<double> w = in.w.ToDoubles();
  const auto filter = static_cast<size_t>(depth * g.kernel_size());
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] -= in.w_zeros[in.w_zeros.size() == 1 ? 0 : i / filter];
  }
  const int32_t* bias = in.bias ? in.bias->data<int32_t>() : nullptr;
  std::vector<double> sums(static_cast<size_t>(g.output_size()));
  int64_t index = 0;
  for (int64_t n = 0; n < in.x.dim(0); ++n) {
    for (int64_t m = 0; m < channels; ++m) {
      std::fill(sums.begin(), sums.end(), bias ? bias[m] : 0);
      for (int64_t c = 0; c < depth; ++c) {
        const int64_t plane = n * in.x.dim(1) + m / per_group * depth + c;
        AddConvolved(g, x.data() + plane * g.input_size(),
                     w.data() + (m * depth + c) * g.kernel_size(), sums.data());
      }
      for (const double sum : sums) store(index++, Accumulator(static_cast<int64_t>(sum)), m);
    }
  }
}

std::optional<SymbolicShape> InferredConv(const InferContext& context, size_t x, size_t w,
                                          size_t bias) {
  if (context.shape(x) == nullptr) return std::nullopt;
  return ConvOutputShape(context.attributes(), *context.shape(x), context.shape(w),
                         context.has(bias) ? context.shape(bias) : nullptr);
}

Dim ChannelsOf(const InferContext& context, size_t w) {
  const SymbolicShape* shape = context.shape(w);
  return shape != nullptr && !shape->empty() ? (*shape)[0] : Dim();
}

// --- ConvInteger

void InferConvInteger(InferContext& context) {
  RequireDType(context, 0, {DType::kInt8, DType::kUint8});
  RequireDType(context, 1, {DType::kInt8, DType::kUint8});
  RequireSameDType(context, 0, 2);
  RequireSameDType(context, 1, 3);
  SetOutput(context, 0, DType::kInt32, InferredConv(context, 0, 1, 4));
}

std::vector<int32_t> ZerosOf(const EvalContext& context, size_t slot, int64_t count) {
  if (!context.has(slot)) return {0};
  const Tensor& tensor = context.input(slot);
  if (tensor.count() != 1 && tensor.count() != count) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(tensor.count(), " zero points for ", count, " channels of ", context.node.op_type));
  }
  std::vector<int32_t> out;
  for (const int64_t value : tensor.ToInts()) out.push_back(static_cast<int32_t>(value));
  return out;
}

void EvaluateConvInteger(EvalContext& context) {
  const Tensor& w = context.input(1);
  const ConvOperands operands{context.input(0), ZerosOf(context, 2, 1)[0], w,
                              ZerosOf(context, 3, w.rank() > 0 ? w.dim(0) : 1), nullptr};
  Tensor out;
  int32_t* to = nullptr;
  Convolve(
      context.attributes(), operands,
      [&](const Shape& shape) {
        out = Tensor(DType::kInt32, shape);
        to = out.data<int32_t>();
      },
      [&](int64_t i, int32_t accumulator, int64_t) { to[i] = accumulator; });
  context.outputs[0] = out;
}

// --- QLinearConv: x, scale, zero, w, scale, zero, y scale, zero, bias

void InferQLinearConv(InferContext& context) {
  for (const size_t slot : {0, 3, 7}) RequireDType(context, slot, {DType::kInt8, DType::kUint8});
  RequireDType(context, 8, {DType::kInt32});
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, context.inputs[3].dtype, 4, 5, ChannelsOf(context, 3),
               ScaleRule::kPositiveOrZero);
  CheckOperand(context, DType::kUndefined, 6, 7);
  SetOutput(context, 0, QuantizedDType(context, 7, context.inputs[0].dtype),
            InferredConv(context, 0, 3, 8));
}

void EvaluateQLinearConv(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(3);
  const int64_t channels = w.rank() > 0 ? w.dim(0) : 1;
  const DType dtype = QuantizedDType(context, 7, x.dtype());
  const QuantOperand qx = ReadOperand(context, x.dtype(), 1, 2);
  const QuantOperand qw =
      ReadOperand(context, w.dtype(), 4, 5, channels, ScaleRule::kPositiveOrZero);
  const QuantOperand qy = ReadOperand(context, dtype, 6, 7);
  std::vector<double> multipliers;
  for (size_t c = 0; c < static_cast<size_t>(channels); ++c) {
    multipliers.push_back(
        ProductMultiplier(context.requantize, qx.scales[0], qw.ScaleAt(c), qy.scales[0]));
  }
  const PreparedRequantize prepared =
      PrepareRequantize(context.requantize, multipliers, {kAnyAccumulator}, qy.zeros[0],
                        ByteMin(dtype), ByteMax(dtype));
  const RequantizeParams params = prepared.Params();
  const ConvOperands operands{x, qx.zeros[0], w, qw.zeros,
                              context.has(8) ? &context.input(8) : nullptr};
  Tensor out;
  Convolve(
      context.attributes(), operands, [&](const Shape& shape) { out = Tensor(dtype, shape); },
      [&](int64_t i, int32_t accumulator, int64_t channel) {
        StoreByte(out.raw(), i,
                  ApplyRequantize(accumulator, params, static_cast<int32_t>(channel)));
      });
  context.outputs[0] = out;
}

constexpr OpDef kRows[] = {
    OnIntegers({"ConvInteger", "", 10, 2, 4, 1, InferConvInteger, EvaluateConvInteger,
                QuantRule::kFloat, FusionRule::kOutFusable}),
    OnIntegers({"QLinearConv", "", 10, 8, 9, 1, InferQLinearConv, EvaluateQLinearConv,
                QuantRule::kFloat, FusionRule::kOutFusable}),
};

}  // namespace

std::span<const OpDef> QLinearConvOps() { return kRows; }

}  // namespace requant

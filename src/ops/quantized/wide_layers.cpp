// QLinearConv16, QLinearMatMul16 and QGemm16 (ops/quantized/wide.h): the sum times s_x * s_w / s_y,
// or without a scale of the result the float32 sum * (s_x * s_w).
//
// Sums are exact: |x - zero| < 2^16 and |w - zero| < 2^8, so 2^29 products fit the 53 bits of a
// float64.
#include <algorithm>
#include <vector>

#include "ops/convolution/convolve.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/quantized/qlinear.h"
#include "ops/quantized/wide.h"
#include "ops/quantized/wide_rows.h"
#include "ops/table.h"

namespace requant {
namespace {

// --- layers: x, scale, zero, w, scale, zero, then the slots of the result and the bias

struct WideLayerSlots {
  size_t y_scale, bias;
  bool matrix;
};

WideLayerSlots WideSlotsOf(const Node& node) {
  if (node.op_type == "QGemm16") return {7, 6, true};
  return {6, 8, node.op_type == "QLinearMatMul16"};
}

std::optional<SymbolicShape> WideLayerShape(const InferContext& context) {
  const SymbolicShape* x = context.shape(0);
  const SymbolicShape* w = context.shape(3);
  const WideLayerSlots slots = WideSlotsOf(context.node);
  const SymbolicShape* bias = context.has(slots.bias) ? context.shape(slots.bias) : nullptr;
  if (x == nullptr || (slots.matrix && w == nullptr)) return std::nullopt;
  if (!slots.matrix) return ConvOutputShape(context.attributes(), *x, w, bias);
  if (slots.bias == 6) return GemmOutputShape(context.attributes(), *x, *w, bias);
  return MatMulOutputShape(*x, *w);
}

void InferWideLayer(InferContext& context) {
  const WideLayerSlots slots = WideSlotsOf(context.node);
  RequireDType(context, 0, kWideCodes);
  RequireDType(context, 3, kWideCodes);
  RequireDType(context, slots.y_scale + 1, kWideCodes);
  RequireDType(context, slots.bias, {DType::kInt32});
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, context.inputs[3].dtype, 4, 5, Dim(), ScaleRule::kPositiveOrZero);
  DType dtype = DType::kFloat32;
  if (context.has(slots.y_scale)) {
    CheckOperand(context, DType::kUndefined, slots.y_scale, slots.y_scale + 1);
    dtype = QuantizedDType(context, slots.y_scale + 1, context.inputs[0].dtype);
  }
  SetOutput(context, 0, dtype, WideLayerShape(context));
}

/// Writes sums as codes or floats.
class WideLayerWriter {
 public:
  WideLayerWriter(const EvalContext& context, int64_t channels, const Shape& shape)
      : slots_(WideSlotsOf(context.node)),
        quantized_(context.has(slots_.y_scale)),
        dtype_(quantized_ ? QuantizedDType(context, slots_.y_scale + 1, context.input(0).dtype())
                          : DType::kFloat32),
        x_(ReadOperand(context, context.input(0).dtype(), 1, 2)),
        w_(ReadOperand(context, context.input(3).dtype(), 4, 5, channels,
                       ScaleRule::kPositiveOrZero)),
        y_(quantized_ ? ReadOperand(context, dtype_, slots_.y_scale, slots_.y_scale + 1)
                      : QuantOperand{{1}, {0}}),
        to_(WideOutputOf(y_, quantized_ ? dtype_ : DType::kInt16)),
        out_(dtype_, shape) {}

  void Store(int64_t index, double sum, int64_t channel) {
    const double multiplier =
        WideMultiplier(x_.scales[0], w_.ScaleAt(static_cast<size_t>(channel)), y_.scales[0]);
    if (quantized_) {
      StoreCode(out_.raw(), dtype_, index,
                RequantizeWide(static_cast<int64_t>(sum), multiplier, to_));
    } else {
      out_.data<float>()[index] = static_cast<float>(sum * multiplier);
    }
  }
  int32_t x_zero() const { return x_.zeros[0]; }
  int32_t w_zero(int64_t channel) const { return w_.ZeroAt(static_cast<size_t>(channel)); }
  Tensor& out() { return out_; }

 private:
  WideLayerSlots slots_;
  bool quantized_;
  DType dtype_;
  QuantOperand x_, w_, y_;
  WideOutput to_;
  Tensor out_;
};

void EvaluateWideConv(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(3);
  const Tensor* bias = context.has(8) ? &context.input(8) : nullptr;
  const SymbolicShape weight_shape = ToSymbolic(w.shape());
  const SymbolicShape bias_shape = bias ? ToSymbolic(bias->shape()) : SymbolicShape{};
  const ValueType type{DType::kInt32, ConvOutputShape(context.attributes(), ToSymbolic(x.shape()),
                                                      &weight_shape, bias ? &bias_shape : nullptr)};
  WideLayerWriter writer(context, w.dim(0), type.StaticShape());
  if (writer.out().count() == 0) {
    context.outputs[0] = writer.out();
    return;
  }
  const Geometry g = PlaceGeometry(ConvWindow(context.attributes(), w.shape()), x.shape());
  const int64_t channels = w.dim(0), depth = w.dim(1);
  const int64_t per_group = channels / context.attributes().Int("group", 1);
  const std::vector<double> data = CenteredCodes(x, writer.x_zero());
  std::vector<double> weights = w.ToDoubles();
  const auto filter = static_cast<size_t>(depth * g.kernel_size());
  for (size_t i = 0; i < weights.size(); ++i) {
    weights[i] -= writer.w_zero(static_cast<int64_t>(i / filter));
  }
  std::vector<double> sums(static_cast<size_t>(g.output_size()));
  int64_t index = 0;
  for (int64_t n = 0; n < x.dim(0); ++n) {
    for (int64_t m = 0; m < channels; ++m) {
      std::fill(sums.begin(), sums.end(), bias ? bias->data<int32_t>()[m] : 0);
      for (int64_t c = 0; c < depth; ++c) {
        const int64_t plane = n * x.dim(1) + m / per_group * depth + c;
        AddConvolved(g, data.data() + plane * g.input_size(),
                     weights.data() + (m * depth + c) * g.kernel_size(), sums.data());
      }
      for (const double sum : sums) writer.Store(index++, sum, m);
    }
  }
  context.outputs[0] = writer.out();
}

void EvaluateWideProduct(EvalContext& context) {
  const Tensor& a = context.input(0);
  const Tensor& b = context.input(3);
  const bool gemm = context.node.op_type == "QGemm16";
  const Tensor* c = gemm && context.has(6) ? &context.input(6) : nullptr;
  const SymbolicShape c_shape = c ? ToSymbolic(c->shape()) : SymbolicShape{};
  const ValueType type{DType::kInt32,
                       gemm ? GemmOutputShape(context.attributes(), ToSymbolic(a.shape()),
                                              ToSymbolic(b.shape()), c ? &c_shape : nullptr)
                            : MatMulOutputShape(ToSymbolic(a.shape()), ToSymbolic(b.shape()))};
  const Shape shape = type.StaticShape();
  const bool trans_a = gemm && context.attributes().Int("transA", 0) != 0;
  const bool trans_b = gemm && context.attributes().Int("transB", 0) != 0;
  const int64_t inner = trans_a ? a.dim(0) : a.shape().back();
  const int64_t rows = trans_a ? a.dim(1) : a.rank() > 1 ? a.dim(a.rank() - 2) : 1;
  const int64_t columns = b.rank() == 1 ? 1 : trans_b ? b.dim(0) : b.shape().back();
  WideLayerWriter writer(context, columns, shape);
  const std::vector<double> left = CenteredCodes(a, writer.x_zero());
  const std::vector<double> right = b.ToDoubles();
  const Shape batch_a(a.shape().begin(), a.shape().end() - std::min<int64_t>(2, a.rank()));
  const Shape batch_b(b.shape().begin(), b.shape().end() - std::min<int64_t>(2, b.rank()));
  const auto addend = [&](int64_t row, int64_t column) -> double {
    if (c == nullptr) return 0;
    const Shape& s = c->shape();
    const int64_t width = s.empty() ? 1 : s.back(), height = s.size() < 2 ? 1 : s[0];
    return c->data<int32_t>()[(height == 1 ? 0 : row) * width + (width == 1 ? 0 : column)];
  };
  int64_t index = 0;
  ForEachRow(PlanRows(BroadcastShapes(batch_a, batch_b), {&batch_a, &batch_b}),
             [&](const RowStep& step) {
               for (int64_t i = 0; i < step.length; ++i) {
                 const int64_t at_a = (step.input[0] + i * step.step[0]) * rows * inner;
                 const int64_t at_b = (step.input[1] + i * step.step[1]) * inner * columns;
                 for (int64_t row = 0; row < rows; ++row) {
                   for (int64_t column = 0; column < columns; ++column) {
                     double sum = addend(row, column);
                     for (int64_t k = 0; k < inner; ++k) {
                       const int64_t l = trans_a ? k * rows + row : row * inner + k;
                       const int64_t r = trans_b ? column * inner + k : k * columns + column;
                       sum += left[static_cast<size_t>(at_a + l)] *
                              (right[static_cast<size_t>(at_b + r)] - writer.w_zero(column));
                     }
                     writer.Store(index++, sum, column);
                   }
                 }
               }
             });
  context.outputs[0] = writer.out();
}

constexpr OpDef kRows[] = {
    WideRow("QLinearConv16", 6, 9, InferWideLayer, EvaluateWideConv, FusionRule::kOutFusable,
            RewriteWide),
    WideRow("QLinearMatMul16", 6, 8, InferWideLayer, EvaluateWideProduct, FusionRule::kOutFusable,
            RewriteWide),
    WideRow("QGemm16", 6, 9, InferWideLayer, EvaluateWideProduct, FusionRule::kOutFusable,
            RewriteWide),
};

}  // namespace

std::span<const OpDef> WideLayerOps() { return kRows; }

}  // namespace requant

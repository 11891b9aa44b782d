// ai.requant::QLinearConvTranspose: ConvTranspose (onnx docs/Operators.md) on 8-bit values, with
// the operands of QLinearConv. ONNX has no such operator. The weights are [in, out / group,
// kernel...]; their scale and zero point have one entry, or one per output channel of all groups.
#include <vector>

#include "numeric/multiplier.h"
#include "numeric/requantize_prepare.h"
#include "ops/convolution/convolve.h"
#include "ops/quantized/qlinear.h"
#include "ops/table.h"

namespace requant {
namespace {

/// Inputs: x, scale, zero point, w, scale, zero point, y scale, zero point, bias (int32, at scale x
/// * w).
void InferTransposed(InferContext& context) {
  for (const size_t slot : {0, 3, 7}) RequireDType(context, slot, {DType::kInt8, DType::kUint8});
  RequireDType(context, 8, {DType::kInt32});
  CheckOperand(context, context.inputs[0].dtype, 1, 2);
  CheckOperand(context, context.inputs[3].dtype, 4, 5, Dim(), ScaleRule::kPositiveOrZero);
  CheckOperand(context, DType::kUndefined, 6, 7);
  std::optional<SymbolicShape> shape;
  if (context.shape(0) && context.shape(3)) {
    shape = TransposeOutputShape(context.attributes(), *context.shape(0), *context.shape(3),
                                 context.has(8) ? context.shape(8) : nullptr);
  }
  SetOutput(context, 0, QuantizedDType(context, 7, context.inputs[0].dtype), std::move(shape));
}

void EvaluateTransposed(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& w = context.input(3);
  const int32_t* bias = context.has(8) ? context.input(8).data<int32_t>() : nullptr;
  const SymbolicShape bias_shape = bias ? ToSymbolic(context.input(8).shape()) : SymbolicShape{};
  const DType dtype = QuantizedDType(context, 7, x.dtype());
  const ValueType type{dtype,
                       TransposeOutputShape(context.attributes(), ToSymbolic(x.shape()),
                                            ToSymbolic(w.shape()), bias ? &bias_shape : nullptr)};
  Tensor out(dtype, type.StaticShape());
  const int64_t group = context.attributes().Int("group", 1);
  const int64_t width = w.dim(1);
  const int64_t depth = w.dim(0) / group;
  const int64_t channels = width * group;
  const bool shared = context.input(4).count() == width;
  const QuantOperand qx = ReadOperand(context, x.dtype(), 1, 2);
  const QuantOperand qw =
      ReadOperand(context, w.dtype(), 4, 5, shared ? width : channels, ScaleRule::kPositiveOrZero);
  const QuantOperand qy = ReadOperand(context, dtype, 6, 7);
  const auto entry = [&](int64_t m) { return static_cast<size_t>(shared ? m % width : m); };
  std::vector<double> multipliers;
  for (int64_t m = 0; m < channels; ++m) {
    multipliers.push_back(
        ProductMultiplier(context.requantize, qx.scales[0], qw.ScaleAt(entry(m)), qy.scales[0]));
  }
  const PreparedRequantize prepared =
      PrepareRequantize(context.requantize, multipliers, {kAnyAccumulator}, qy.zeros[0],
                        ByteMin(dtype), ByteMax(dtype));
  const RequantizeParams params = prepared.Params();
  if (out.count() > 0) {
    const Geometry g = TransposedGeometry(context.attributes(), x.shape(), w.shape());
    std::vector<double> data = x.ToDoubles();
    for (double& value : data) value -= qx.zeros[0];
    std::vector<double> weights = w.ToDoubles();
    for (size_t i = 0; i < weights.size(); ++i) {
      const int64_t plane = static_cast<int64_t>(i) / g.kernel_size();
      weights[i] -= qw.ZeroAt(entry(plane / width / depth * width + plane % width));
    }
    // exact, since these are sums of integers
    std::vector<double> sums(static_cast<size_t>(g.output_size()));
    int64_t index = 0;
    for (int64_t n = 0; n < x.dim(0); ++n) {
      for (int64_t m = 0; m < channels; ++m) {
        std::fill(sums.begin(), sums.end(), bias ? bias[m] : 0);
        const int64_t first = m / width * depth;
        for (int64_t c = first; c < first + depth; ++c) {
          AddTransposed(g, data.data() + (n * w.dim(0) + c) * g.input_size(),
                        weights.data() + (c * width + m % width) * g.kernel_size(), sums.data());
        }
        for (const double sum : sums) {
          const int32_t accumulator = Accumulator(static_cast<int64_t>(sum));
          StoreByte(out.raw(), index++,
                    ApplyRequantize(accumulator, params, static_cast<int32_t>(m)));
        }
      }
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    OnIntegers({"QLinearConvTranspose", kRequantDomain, 1, 8, 9, 1, InferTransposed,
                EvaluateTransposed, QuantRule::kFloat, FusionRule::kOutFusable}),
};

}  // namespace

std::span<const OpDef> QLinearConvTransposeOps() { return kRows; }

}  // namespace requant

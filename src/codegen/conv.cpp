// Convolutions: integers in rows of sums, floats pixel by pixel.
#include "codegen/emit.h"
#include "numeric/multiplier.h"
#include "ops/convolution/convolve.h"

namespace requant {
namespace {

/// Merges all dimensions into one line for a window of one element without padding.
Geometry Flattened(Geometry g) {
  for (size_t axis = 0; axis < 3; ++axis) {
    if (g.kernel[axis] != 1 || g.stride[axis] != 1 || g.pad_begin[axis] != 0 ||
        g.input[axis] != g.output[axis]) {
      return g;
    }
  }
  g.input = g.output = {1, 1, g.input_size()};
  return g;
}

/// The members of an rq_conv or rq_conv_transpose, whose slots are those of QLinearConv. `entry`
/// gives the index of an output channel's scale and zero point of the weights.
template <typename Entry>
Fields ConvFields(EmitContext& context, const Fields& window, int64_t channels, Entry entry) {
  context.RequireByte(0);
  const QuantOperand x = context.Operand(1, 2);
  const QuantOperand w = context.Operand(4, 5, ScaleRule::kPositiveOrZero);
  const QuantOperand y = context.Operand(6, 7);
  std::vector<double> multipliers;
  std::vector<int32_t> zeros;
  for (int64_t m = 0; m < channels; ++m) {
    multipliers.push_back(ProductMultiplier(context.file.requantize(), x.scales[0],
                                            w.ScaleAt(entry(m)), y.scales[0]));
    zeros.push_back(w.ZeroAt(entry(m)));
  }
  const ByteReading reading = ReadingOf(context.InputType(0), x.zeros[0]);
  return Fields() << window << reading.zero << reading.flip
                  << WeightsFields(context, IntsOf(context.Constant(3)), zeros)
                  << (context.has(8) ? context.file.Ints(IntsOf(context.Constant(8))) : "NULL")
                  << OutputFields(context, multipliers, y.zeros[0], context.OutputType());
}

/// The geometry of a convolution with constant weights, and its window.
Fields ConvWindowFields(EmitContext& context, const Tensor& w) {
  const Shape x = context.InputShape(0);
  const AttributeMap& attributes = context.node.attributes;
  const Geometry g = Flattened(PlaceGeometry(ConvWindow(attributes, w.shape()), x));
  return WindowFields(g, x[0], x[1], w.dim(0), attributes.Int("group", 1));
}

}  // namespace

void EmitQLinearConv(EmitContext& context) {
  const Tensor& w = context.Constant(3);
  context.file.Use("conv");
  const Fields conv = ConvFields(context, ConvWindowFields(context, w), w.dim(0),
                                 [](int64_t m) { return static_cast<size_t>(m); });
  context.Call("rq_conv_run", "rq_conv", conv);
}

void EmitConvInteger(EmitContext& context) {
  context.RequireByte(0);
  const Tensor& w = context.Constant(1);
  const std::vector<int32_t> zeros = context.ForChannels(context.Zeros(3), w.dim(0));
  const ByteReading reading = ReadingOf(context.InputType(0), context.Zero(2));
  context.file.Use("conv");
  const Fields conv = Fields() << ConvWindowFields(context, w) << reading.zero << reading.flip
                               << WeightsFields(context, IntsOf(w), zeros) << "NULL" << NoOutput();
  context.Call("rq_conv_run", "rq_conv", conv);
}

void EmitQLinearConvTranspose(EmitContext& context) {
  const Tensor& w = context.Constant(3);
  const Shape x = context.InputShape(0);
  const AttributeMap& attributes = context.node.attributes;
  const int64_t groups = attributes.Int("group", 1), width = w.dim(1);
  const Geometry g = TransposedGeometry(attributes, x, w.shape());
  const bool shared = context.Constant(4).count() == width;
  context.file.Use("conv_transpose");
  const Fields conv =
      ConvFields(context, WindowFields(g, x[0], x[1], width * groups, groups), width * groups,
                 [&](int64_t m) { return static_cast<size_t>(shared ? m % width : m); });
  context.Call("rq_conv_transpose_run", "rq_conv_transpose", conv);
}

void EmitFloatConv(EmitContext& context) {
  context.RequireFloat(0);
  context.RequireFloat(1);
  const Shape x = context.InputShape(0), w = context.InputShape(1);
  const AttributeMap& attributes = context.node.attributes;
  const Geometry g = PlaceGeometry(ConvWindow(attributes, w), x);
  context.file.Use("conv_float");
  const Fields window = WindowFields(g, x[0], x[1], w[0], attributes.Int("group", 1));
  context.file.Call("rq_conv_float", Fields() << context.In(0) << context.In(1)
                                              << (context.has(2) ? context.In(2) : "NULL")
                                              << context.Out()
                                              << context.file.Struct("rq_window", window));
}

}  // namespace requant

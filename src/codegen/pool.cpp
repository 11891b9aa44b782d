// Pools of bytes.
#include "codegen/emit.h"
#include "numeric/multiplier.h"

namespace requant {
namespace {

/// Moves the channels of a shape to the second position; returns whether they were last.
bool ToPlanar(const AttributeMap& attributes, Shape& shape) {
  const bool last = attributes.Int("channels_last", 0) != 0 && shape.size() > 2;
  if (last) {
    shape.insert(shape.begin() + 1, shape.back());
    shape.pop_back();
  }
  return last;
}

/// Whether every window is completely inside of the input.
bool IsFull(const Geometry& g) {
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t end = (g.output[axis] - 1) * g.stride[axis] +
                        (g.kernel[axis] - 1) * g.dilation[axis] - g.pad_begin[axis];
    if (g.pad_begin[axis] != 0 || end >= g.input[axis]) return false;
  }
  return true;
}

/// A single window over a plane; `x` has channels in the second position.
Geometry WholePlane(const Shape& x) {
  const int64_t area = NumElements(Shape(x.begin() + 2, x.end()));
  return {{1, 1, area}, {1, 1, 1}, {1, 1, area}, {1, 1, 1}, {1, 1, 1}, {}, {}};
}

void EmitAverage(EmitContext& context, const Geometry& g, const Shape& x, bool channels_last,
                 bool count_pad) {
  context.RequireByte(0);
  const QuantOperand from = context.Operand(1, 2), to = context.Operand(3, 4);
  // One scale for every number of elements that a window may hold; full windows have only one.
  const int64_t taps = g.kernel_size();
  std::vector<double> multipliers;
  for (int64_t count = IsFull(g) ? taps : 1; count <= taps; ++count) {
    multipliers.push_back(
        AverageMultiplier(context.file.requantize(), from.scales[0], to.scales[0], count));
  }
  const ByteReading reading = ReadingOf(context.InputType(0), from.zeros[0]);
  context.file.Use("average_pool");
  const Fields members =
      Fields() << WindowFields(g, x[0], x[1], x[1], 1) << std::span<const int64_t>(g.pad_end)
               << (count_pad ? 1 : 0) << reading.zero << reading.flip << (channels_last ? 1 : 0)
               << OutputFields(context, multipliers, to.zeros[0], context.OutputType());
  context.Call("rq_average_pool_run", "rq_average_pool", members);
}

}  // namespace

void EmitQLinearAveragePool(EmitContext& context) {
  const AttributeMap& attributes = context.node.attributes;
  Shape x = context.InputShape(0);
  const bool last = ToPlanar(attributes, x);
  EmitAverage(context, PlaceGeometry(PoolWindow(attributes), x), x, last,
              attributes.Int("count_include_pad", 0) != 0);
}

void EmitQLinearGlobalAveragePool(EmitContext& context) {
  Shape x = context.InputShape(0);
  const bool last = ToPlanar(context.node.attributes, x);
  EmitAverage(context, WholePlane(x), x, last, false);
}

namespace {

/// Calls a pool of floats; `pad_end` is NULL, or the end of the padding that a window counts.
void CallFloatPool(EmitContext& context, const Geometry& g, bool most, const std::string& pad_end) {
  context.RequireFloat(0);
  const Shape x = context.InputShape(0);
  context.file.Use("pool_float");
  const Fields window = WindowFields(g, x[0], x[1], x[1], 1);
  context.file.Call("rq_pool_float", Fields() << context.In(0) << context.Out()
                                              << context.file.Struct("rq_window", window)
                                              << (most ? 1 : 0) << pad_end);
}

}  // namespace

void EmitFloatAveragePool(EmitContext& context) {
  const AttributeMap& attributes = context.node.attributes;
  const Geometry g = PlaceGeometry(PoolWindow(attributes), context.InputShape(0));
  const bool count_pad = attributes.Int("count_include_pad", 0) != 0;
  const std::vector<int32_t> pad_end(g.pad_end.begin(), g.pad_end.end());
  CallFloatPool(context, g, false, count_pad ? context.file.Ints(pad_end) : "NULL");
}

void EmitFloatGlobalAveragePool(EmitContext& context) {
  CallFloatPool(context, WholePlane(context.InputShape(0)), false, "NULL");
}

void EmitMaxPool(EmitContext& context) {
  if (context.node.output(1) != nullptr) context.Unsupported("MaxPool with indices");
  const Shape x = context.InputShape(0);
  const Geometry g = PlaceGeometry(PoolWindow(context.node.attributes), x);
  if (context.InputType(0) == DType::kFloat32) return CallFloatPool(context, g, true, "NULL");
  context.RequireByte(0);
  context.file.Use("max_pool");
  const Fields window = WindowFields(g, x[0], x[1], x[1], 1);
  context.file.Call("rq_max_pool", Fields() << context.In(0) << context.Out()
                                            << context.file.Struct("rq_window", window)
                                            << ReadingOf(context.InputType(0), 0).flip);
}

}  // namespace requant

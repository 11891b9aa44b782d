// Operators that move elements to other positions. The reference operator moves the numbers of the
// elements; if the result lies along axes, a loop over these is written, otherwise the list of the
// numbers.
#include "codegen/move.h"

#include <algorithm>

#include "base/error.h"
#include "base/str_cat.h"
#include "codegen/emit.h"
#include "numeric/lut.h"
#include "ops/op.h"
#include "ops/shape/select.h"

namespace requant {

std::vector<Axis> AxesOf(const std::vector<int32_t>& numbers) {
  // Guess the axes. The innermost one is as long as the step stays the same and the rest divides by
  // its length; the first elements of its lines are examined in the same way. The guess is verified
  // against all numbers.
  std::vector<Axis> axes;
  const auto count = static_cast<int64_t>(numbers.size());
  const auto at = [&numbers](int64_t i) { return int64_t{numbers[static_cast<size_t>(i)]}; };
  int64_t line = 1;  // number of elements that the axes so far span
  while (line < count) {
    const int64_t step = at(line) - at(0);
    int64_t length = 2;
    while (length * line < count && at(length * line) - at((length - 1) * line) == step) ++length;
    while (count % (length * line) != 0) --length;
    if (length == 1) return {};
    axes.push_back({length, step});
    line *= length;
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i, place = at(0);
    for (const Axis& axis : axes) {
      place += rest % axis.length * axis.step;
      rest /= axis.length;
    }
    if (place != at(i)) return {};
  }
  std::reverse(axes.begin(), axes.end());
  if (axes.empty()) axes.push_back({1, 0});
  return axes;
}

namespace {

constexpr size_t kMoveAxes = 8;  // of move.c

/// The members of an rq_move. One side starts at `first` and follows the axes, the other is
/// contiguous.
Fields MoveFields(const std::vector<Axis>& axes, int64_t first, int64_t bytes, bool from) {
  std::vector<int64_t> dims(kMoveAxes, 1), strides(kMoveAxes, 0), dense(kMoveAxes, 0);
  int64_t elements = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const size_t place = kMoveAxes - axes.size() + i;
    dims[place] = axes[i].length;
    strides[place] = axes[i].step;
    dense[place] = elements;
    elements *= axes[i].length;
  }
  return Fields() << bytes << (from ? first : 0) << (from ? 0 : first) << dims
                  << (from ? strides : dense) << (from ? dense : strides);
}

/// Calls the loop over elements of `bytes` bytes.
void CallLoop(EmitContext& context, const std::string& x, const std::string& y,
              const Fields& move) {
  context.file.Use("move");
  context.file.Call("rq_move_run", Fields() << x << y << context.file.Struct("rq_move", move));
}

std::string BytePointer(const std::string& pointer, DType dtype, bool constant) {
  if (dtype != DType::kFloat32) return pointer;
  return StrCat(constant ? "(const uint8_t *)" : "(uint8_t *)", pointer);
}

/// The number of the input element that each output element comes from; -1 if it is something else.
std::vector<std::vector<int32_t>> Numbers(EmitContext& context) {
  const Node& node = context.node;
  Tensor numbers(DType::kInt32, context.InputShape(0));
  for (int64_t i = 0; i < numbers.count(); ++i) {
    numbers.data<int32_t>()[i] = static_cast<int32_t>(i);
  }
  const Tensor nothing = Tensor::Scalar<int32_t>(-1);
  std::vector<const Tensor*> inputs = {&numbers};
  for (size_t slot = 1; slot < node.inputs.size(); ++slot) {
    inputs.push_back(context.has(slot) ? &context.Constant(slot) : nullptr);
  }
  if (node.Is(Op::kPad)) {
    inputs.resize(std::max<size_t>(inputs.size(), 3));
    inputs[2] = &nothing;
  }
  std::vector<std::vector<int32_t>> out;
  for (const Tensor& moved : EvaluateNode(context.graph, node, inputs, context.file.requantize())) {
    const auto values = moved.values<int32_t>();
    out.emplace_back(values.begin(), values.end());
  }
  return out;
}

/// Moves elements to output `slot` by their numbers.
void CallMove(EmitContext& context, size_t slot, const std::vector<int32_t>& numbers) {
  const DType dtype = context.InputType(0);
  const auto bytes = static_cast<int64_t>(ElementBytes(dtype));
  const std::string x = BytePointer(context.In(0), dtype, true);
  const std::string y = BytePointer(context.Out(slot), dtype, false);
  const std::vector<Axis> axes = AxesOf(numbers);
  if (!axes.empty() && axes.size() <= kMoveAxes) {
    return CallLoop(context, x, y, MoveFields(axes, numbers[0], bytes, true));
  }
  context.file.Use("select");
  context.file.Call("rq_select", Fields() << x << y << static_cast<int64_t>(numbers.size())
                                          << context.file.Ints(numbers) << bytes);
}

/// The lengths that Concat joins: the product of all dimensions from `axis` on.
struct Lines {
  int64_t rows, own;
};
Lines LinesOf(const Shape& shape, int64_t axis) {
  const auto at = shape.begin() + static_cast<ptrdiff_t>(axis);
  return {NumElements(Shape(shape.begin(), at)), NumElements(Shape(at, shape.end()))};
}

int64_t ConcatAxis(const EmitContext& context) {
  return NormalizeAxis(context.node.attributes.Int("axis", 0),
                       static_cast<int64_t>(context.OutputShape().size()));
}

}  // namespace

void EmitMove(EmitContext& context) {
  const Node& node = context.node;
  if (node.Is(Op::kResize) && node.attributes.String("mode", "nearest") != "nearest") {
    context.Unsupported("Resize that interpolates");
  }
  const auto numbers = Numbers(context);
  for (size_t slot = 0; slot < numbers.size(); ++slot) {
    if (node.output(slot) == nullptr || numbers[slot].empty()) continue;
    CallMove(context, slot, numbers[slot]);
  }
}

void EmitPad(EmitContext& context) {
  const std::vector<int32_t> numbers = Numbers(context)[0];
  if (numbers.empty()) return;
  const bool filled = std::find(numbers.begin(), numbers.end(), -1) != numbers.end();
  if (!filled) return CallMove(context, 0, numbers);
  const DType dtype = context.InputType(0);
  const size_t bytes = ElementBytes(dtype);
  std::vector<uint8_t> element(bytes, 0);
  if (context.has(2) && context.Constant(2).count() == 0) {
    context.Unsupported("Pad with an empty value");
  }
  if (context.has(2)) {
    const auto* raw = static_cast<const uint8_t*>(context.Constant(2).raw());
    element.assign(raw, raw + bytes);
  } else if (dtype == DType::kFloat32 && context.node.attributes.Float("value", 0) != 0) {
    const float value = context.node.attributes.Float("value", 0);
    std::copy_n(reinterpret_cast<const uint8_t*>(&value), bytes, element.begin());
  }
  context.file.Use("fill");
  const std::string y = BytePointer(context.Out(), dtype, false);
  context.file.Call("rq_fill", Fields()
                                   << y << static_cast<int64_t>(numbers.size())
                                   << context.file.Bytes(element) << static_cast<int64_t>(bytes));
  // The output position of every input element, if all of them have one.
  std::vector<int32_t> places(static_cast<size_t>(NumElements(context.InputShape(0))), -1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= 0) places[static_cast<size_t>(numbers[i])] = static_cast<int32_t>(i);
  }
  const bool all = std::find(places.begin(), places.end(), -1) == places.end();
  const std::vector<Axis> axes = all ? AxesOf(places) : std::vector<Axis>{};
  if (axes.empty() || axes.size() > kMoveAxes) return CallMove(context, 0, numbers);
  CallLoop(context, BytePointer(context.In(0), dtype, true), y,
           MoveFields(axes, places[0], static_cast<int64_t>(bytes), false));
}

void EmitConcat(EmitContext& context) {
  const DType dtype = context.OutputType();
  const auto bytes = static_cast<int64_t>(ElementBytes(dtype));
  const int64_t axis = ConcatAxis(context);
  const int64_t whole = LinesOf(context.OutputShape(), axis).own * bytes;
  context.file.Use("rows");
  int64_t offset = 0;
  for (size_t slot = 0; slot < context.node.inputs.size(); ++slot) {
    const Lines lines = LinesOf(context.InputShape(slot), axis);
    if (lines.own == 0 || lines.rows == 0) continue;
    context.file.Call("rq_rows",
                      Fields() << BytePointer(context.In(slot), dtype, true) << lines.own * bytes
                               << StrCat(BytePointer(context.Out(), dtype, false), " + ", offset)
                               << whole << lines.rows << lines.own * bytes);
    offset += lines.own * bytes;
  }
}

void EmitQLinearConcat(EmitContext& context) {
  const DType dtype = context.OutputType();
  const QuantOperand y = context.Operand(0, 1);
  const int64_t axis = ConcatAxis(context);
  const int64_t whole = LinesOf(context.OutputShape(), axis).own;
  context.file.Use("table_rows");
  int64_t offset = 0;
  for (size_t slot = 2; slot + 2 < context.node.inputs.size(); slot += 3) {
    context.RequireByte(slot);
    const Lines lines = LinesOf(context.InputShape(slot), axis);
    if (lines.own == 0 || lines.rows == 0) continue;
    const ByteTable table =
        MakeRescaleTable(ToByteScale(context.Operand(slot + 1, slot + 2), context.InputType(slot)),
                         ToByteScale(y, dtype));
    context.file.Call("rq_table_rows", Fields()
                                           << context.In(slot) << lines.own
                                           << StrCat(context.Out(), " + ", offset) << whole
                                           << lines.rows << lines.own << context.file.Bytes(table));
    offset += lines.own;
  }
}

}  // namespace requant

// Concat, Split, Slice, Pad.
#include <algorithm>
#include <limits>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteConcat(Writer& w);
void WriteSplit(Writer& w);
void WriteSlice(Writer& w);
void WritePad(Writer& w);

void WriteConcat(Writer& w) {
  const Node& node = w.node();
  const int64_t rank = w.RankOf(node.output());
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", 0), rank);
  const Order order = w.OrderFor(node.inputs, rank);
  const Tail tail = w.TailOf(false);
  const std::vector<const Value*> values(node.inputs.begin(), node.inputs.end());
  const bool on_codes = w.OnCodes(tail, values);
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  std::vector<int32_t> inputs;
  for (const Value* value : values) {
    // CONCATENATION has one grid: others are brought to it.
    int32_t index = w.Need(value, order, form);
    if (on_codes && w.tensor(index).grid != *tail.grid) {
      w.NoteRequantized(value->name);
      index = w.Quantized(index, *tail.grid, StrCat(value->name, "_requantized"));
    }
    inputs.push_back(index);
  }
  const int32_t y = w.Add(Builtin::kCONCATENATION, inputs, tail.value->name,
                          w.TypeOf(node.output()), Ordered(w.ShapeOf(node.output()), order),
                          {IntOption(field::ConcatenationOptions::kAxis, PlaceOf(order, axis))},
                          on_codes ? *tail.grid : Grid{});
  w.Finish(tail, y, order, form);
}

void WriteSplit(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", 0), w.RankOf(x));
  const Order order = w.NativeOrder(x);
  const Form form = w.NativeForm(x);
  const int32_t input = w.Need(x, order, form);
  const NetTensor from = w.tensor(input);
  const auto place = static_cast<size_t>(PlaceOf(order, axis));
  // Sizes follow from the shapes of the results; one that is left out has the rest.
  std::vector<int64_t> sizes;
  std::vector<int32_t> outputs;
  int64_t rest = from.shape[place];
  for (const Value* output : node.outputs) {
    if (output != nullptr) rest -= w.ShapeOf(output)[static_cast<size_t>(axis)];
  }
  for (const Value* output : node.outputs) {
    sizes.push_back(output ? w.ShapeOf(output)[static_cast<size_t>(axis)] : rest);
    Shape shape = from.shape;
    shape[place] = sizes.back();
    const std::string name = output ? output->name : StrCat(node.name, "_rest");
    outputs.push_back(w.AddTensor(name, from.type, shape, from.grid));
  }
  const int32_t counts = w.AddInts(sizes);
  const int32_t dimension = w.AddConstant("axis", Tensor::Scalar(static_cast<int32_t>(place)));
  // SplitVOptions has the number of results.
  w.AddOperator(Builtin::kSPLIT_V, {input, counts, dimension}, outputs,
                {Option{0, Option::Kind::kInt, static_cast<int32_t>(outputs.size())}});
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (node.outputs[i] != nullptr) w.Hold(node.outputs[i], outputs[i], order, form);
  }
}

void WriteSlice(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Shape dims = w.ShapeOf(x);
  const auto rank = static_cast<int64_t>(dims.size());
  const auto starts = w.Ints(1, "starts").value();
  const auto ends = w.Ints(2, "ends").value();
  const auto axes = w.Ints(3, "axes").value_or(PlainOrder(static_cast<int64_t>(starts.size())));
  const auto given_steps = node.attributes.Has("starts") ? std::nullopt : w.Ints(4, nullptr);
  const auto steps = given_steps.value_or(std::vector<int64_t>(starts.size(), 1));
  const Shape result = w.ShapeOf(node.output());
  Shape begin(dims.size(), 0);
  Shape end = dims;
  Shape step(dims.size(), 1);
  bool simple = true;
  int64_t end_mask = 0;
  const Order order = w.NativeOrder(x);
  for (size_t i = 0; i < starts.size(); ++i) {
    const auto axis = static_cast<size_t>(NormalizeAxis(axes[i], rank));
    const int64_t size = dims[axis];
    step[axis] = steps[i];
    simple = simple && steps[i] == 1;
    int64_t start = starts[i] < 0 ? starts[i] + size : starts[i];
    start = std::clamp<int64_t>(start, 0, steps[i] < 0 ? size - 1 : size);
    begin[axis] = start;
    end[axis] = start + result[axis] * steps[i];
    if (steps[i] > 0) {
      end[axis] = std::min(end[axis], size);
    } else if (end[axis] < 0) {
      end_mask |= int64_t{1} << PlaceOf(order, static_cast<int64_t>(axis));
      end[axis] = 0;
    }
  }
  const Form form = w.NativeForm(x);
  const int32_t input = w.Need(x, order, form);
  const NetTensor from = w.tensor(input);
  const Shape shape = Ordered(result, order);
  std::vector<int32_t> inputs = {input, w.AddInts(Ordered(begin, order))};
  int32_t y = 0;
  if (simple) {
    inputs.push_back(w.AddInts(shape));
    y = w.Add(Builtin::kSLICE, inputs, node.output()->name, from.type, shape, {}, from.grid);
  } else {
    inputs.push_back(w.AddInts(Ordered(end, order)));
    inputs.push_back(w.AddInts(Ordered(step, order)));
    y = w.Add(Builtin::kSTRIDED_SLICE, inputs, node.output()->name, from.type, shape,
              {IntOption(field::StridedSliceOptions::kEndMask, end_mask)}, from.grid);
  }
  w.Hold(node.output(), y, order, form);
}

namespace {

/// Pads by repeating elements: along each axis they are gathered.
void PadByGather(Writer& w, const std::vector<int32_t>& table, bool wraps, const Order& order,
                 Form form) {
  const Node& node = w.node();
  int32_t y = w.Need(node.inputs[0], order, form);
  for (size_t axis = 0; axis < order.size(); ++axis) {
    const NetTensor from = w.tensor(y);
    const int64_t size = from.shape[axis];
    const int64_t before = table[2 * axis];
    const int64_t end = size + table[2 * axis + 1];
    if (before == 0 && end == size) continue;
    std::vector<int32_t> places;
    for (int64_t i = -before; i < end; ++i) {
      const int64_t place =
          wraps ? ((i % size) + size) % size : std::clamp<int64_t>(i, 0, size - 1);
      places.push_back(static_cast<int32_t>(place));
    }
    Shape shape = from.shape;
    shape[axis] = static_cast<int64_t>(places.size());
    y = w.Add(Builtin::kGATHER, {y, w.AddConstant("places", Tensor::Vector(places))},
              node.output()->name, from.type, shape,
              {IntOption(field::GatherOptions::kAxis, static_cast<int64_t>(axis)),
               IntOption(field::GatherOptions::kBatchDims, 0)},
              from.grid);
  }
  w.NotePad();
  w.Hold(node.output(), y, order, form);
}

}  // namespace

void WritePad(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const int64_t rank = w.RankOf(x);
  const auto pads = w.Ints(1, "pads").value();
  std::vector<int64_t> axes = PlainOrder(rank);
  if (node.input(3) != nullptr) axes = NormalizeAxes(w.Ints(3, nullptr).value(), rank);
  const std::string mode = node.attributes.String("mode", "constant");
  const bool repeats = mode == "edge" || mode == "wrap";
  double value = node.attributes.Float("value", 0);
  if (node.input(2) != nullptr) value = w.ConstantOf(node.input(2), "values").AsDouble(0);
  const Order order = w.NativeOrder(x);
  const bool is_zero = value == 0 || mode != "constant";
  Form form = w.NativeForm(x);
  // A number beside 0 is not always a code.
  if (!is_zero) form = Form::kNumbers;
  std::vector<int32_t> table(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto place = static_cast<size_t>(PlaceOf(order, axes[i]));
    const int64_t before = pads[i];
    const int64_t after = pads[i + axes.size()];
    if (before < 0 || after < 0) w.Refuse(RQ_LATE_TEXT("it has negative pads"), "use Slice");
    table[2 * place] = static_cast<int32_t>(before);
    table[2 * place + 1] = static_cast<int32_t>(after);
  }
  if (repeats) return PadByGather(w, table, mode == "wrap", order, form);
  const int32_t input = w.Need(x, order, form);
  const NetTensor from = w.tensor(input);
  std::vector<int32_t> inputs = {input,
                                 w.AddConstant("pads", Tensor::FromVector(table, {rank, 2}))};
  std::vector<Option> options;
  Builtin op = Builtin::kPAD;
  if (mode == "reflect") {
    op = Builtin::kMIRROR_PAD;
    options.push_back(ByteOption(field::MirrorPadOptions::kMode, 0));
  } else if (!is_zero) {
    if (from.type != TensorType::kFloat32)
      w.Refuse(RQ_LATE_TEXT("it pads integers with a number"), "pad floats");
    op = Builtin::kPADV2;
    inputs.push_back(w.AddConstant("value", Tensor::Vector<float>({static_cast<float>(value)})));
  }
  w.NotePad();
  const int32_t y = w.Add(op, inputs, node.output()->name, from.type,
                          Ordered(w.ShapeOf(node.output()), order), options, from.grid);
  w.Hold(node.output(), y, order, form);
}

}  // namespace requant::tflite

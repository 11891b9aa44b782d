// Reductions, Softmax, LayerNormalization, ArgMax, CumSum.
#include <algorithm>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteReduce(Writer& w);
void WriteNorm(Writer& w);
void WriteArg(Writer& w);
void WriteSoftmax(Writer& w);
void WriteCumSum(Writer& w);
void WriteLayerNormalization(Writer& w);

namespace {

Builtin Reducer(const Node& node) {
  if (node.Is("ReduceMean")) return Builtin::kMEAN;
  if (node.Is("ReduceSum")) return Builtin::kSUM;
  if (node.Is("ReduceMax")) return Builtin::kREDUCE_MAX;
  if (node.Is("ReduceMin")) return Builtin::kREDUCE_MIN;
  return Builtin::kREDUCE_PROD;
}

/// The order of what remains without these dimensions.
Order Without(const Order& order, const std::vector<int64_t>& axes) {
  Order out;
  for (const int64_t axis : order) {
    if (std::find(axes.begin(), axes.end(), axis) != axes.end()) continue;
    out.push_back(
        axis - std::count_if(axes.begin(), axes.end(), [axis](int64_t one) { return one < axis; }));
  }
  return out;
}

}  // namespace

void WriteReduce(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const int64_t rank = w.RankOf(x);
  auto axes = w.Ints(1, "axes").value_or(std::vector<int64_t>{});
  if (axes.empty() && node.attributes.Int("noop_with_empty_axes", 0) != 0) {
    w.Alias(node.output(), x, PlainOrder(rank));
    return;
  }
  axes = axes.empty() ? PlainOrder(rank) : NormalizeAxes(axes, rank);
  const bool keeps = node.attributes.Int("keepdims", 1) != 0;
  const Order order = w.NativeOrder(x);
  const Builtin op = Reducer(node);
  Tail tail = w.TailOf(false);
  const bool selects = op == Builtin::kREDUCE_MAX || op == Builtin::kREDUCE_MIN;
  bool on_codes = op == Builtin::kMEAN && w.OnCodes(tail, {x});
  if (selects) on_codes = w.NativeForm(x) == Form::kCodes && w.HasCodes(x);
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  if (selects) {
    tail = {};
    tail.value = node.output();
  }
  const int32_t input = w.Need(x, order, form);
  Grid grid;
  if (on_codes) grid = selects ? w.tensor(input).grid : *tail.grid;
  std::vector<int64_t> places;
  for (const int64_t axis : axes) places.push_back(PlaceOf(order, axis));
  std::sort(places.begin(), places.end());
  const Order left = keeps ? order : Without(order, axes);
  const int32_t y = w.Add(op, {input, w.AddInts(places)}, tail.value->name, w.TypeOf(x),
                          Ordered(w.ShapeOf(node.output()), left),
                          {FlagOption(field::ReducerOptions::kKeepDims, keeps)}, grid);
  w.Finish(tail, y, left, form);
}

void WriteNorm(Writer& w) {
  // A sum of magnitudes, squares or powers, and a function of it.
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const int64_t rank = w.RankOf(x);
  auto axes = w.Ints(1, "axes").value_or(std::vector<int64_t>{});
  if (axes.empty() && node.attributes.Int("noop_with_empty_axes", 0) != 0) {
    w.Refuse(RQ_LATE_TEXT("it reduces no dimension"), RQ_LATE_TEXT("give it axes"));
  }
  if (w.TypeOf(x) != TensorType::kFloat32) {
    w.Refuse(RQ_LATE_TEXT("it computes on integers"), RQ_LATE_TEXT("use float32 there"), x);
  }
  axes = axes.empty() ? PlainOrder(rank) : NormalizeAxes(axes, rank);
  const bool keeps = node.attributes.Int("keepdims", 1) != 0;
  const Order order = w.NativeOrder(x);
  const Order left = keeps ? order : Without(order, axes);
  const Shape all = Ordered(w.ShapeOf(x), order);
  const Shape rest = Ordered(w.ShapeOf(node.output()), left);
  Shape kept = all;
  std::vector<int64_t> places;
  for (const int64_t axis : axes) places.push_back(PlaceOf(order, axis));
  std::sort(places.begin(), places.end());
  for (const int64_t place : places) kept[static_cast<size_t>(place)] = 1;
  const std::string& name = node.output()->name;
  const auto add = [&](Builtin op, std::vector<int32_t> inputs, const Shape& shape) {
    return w.Add(op, std::move(inputs), name, TensorType::kFloat32, shape);
  };
  const auto reduce = [&](Builtin op, int32_t input, bool keep) {
    return w.Add(op, {input, w.AddInts(places)}, name, TensorType::kFloat32, keep ? kept : rest,
                 {FlagOption(field::ReducerOptions::kKeepDims, keep)});
  };
  int32_t y = w.Need(x, order, Form::kNumbers);
  // The largest is taken off before EXP, whose sum would overflow.
  int32_t most = -1;
  if (node.Is("ReduceLogSumExp")) {
    most = reduce(Builtin::kREDUCE_MAX, y, true);
    y = add(Builtin::kEXP, {add(Builtin::kSUB, {y, most}, all)}, all);
  } else if (node.Is("ReduceL1")) {
    y = add(Builtin::kABS, {y}, all);
  } else if (!node.Is("ReduceLogSum")) {
    y = add(Builtin::kMUL, {y, y}, all);
  }
  y = reduce(Builtin::kSUM, y, keeps);
  if (node.Is("ReduceL2")) y = add(Builtin::kSQRT, {y}, rest);
  if (node.Is("ReduceLogSum") || most >= 0) y = add(Builtin::kLOG, {y}, rest);
  if (most >= 0) y = add(Builtin::kADD, {y, w.Reshaped(most, rest, name)}, rest);
  w.Hold(node.output(), y, left, Form::kNumbers);
}

void WriteArg(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const int64_t rank = w.RankOf(x);
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", 0), rank);
  if (node.attributes.Int("select_last_index", 0) != 0) {
    w.Refuse(RQ_LATE_TEXT("it takes the last of equal elements"),
             RQ_LATE_TEXT("use select_last_index 0"));
  }
  const bool keeps = node.attributes.Int("keepdims", 1) != 0;
  const Order order = w.NativeOrder(x);
  const Form form = w.NativeForm(x);
  const int32_t input = w.Need(x, order, form);
  const Order left = Without(order, {axis});
  Shape shape = w.tensor(input).shape;
  shape.erase(shape.begin() + PlaceOf(order, axis));
  const int32_t place =
      w.AddConstant("axis", Tensor::Scalar(static_cast<int32_t>(PlaceOf(order, axis))));
  // ArgMaxOptions and ArgMinOptions have the type of the result.
  const Option type{0, Option::Kind::kByte, static_cast<int32_t>(TensorType::kInt64)};
  int32_t y = w.Add(node.Is("ArgMax") ? Builtin::kARG_MAX : Builtin::kARG_MIN, {input, place},
                    node.output()->name, TensorType::kInt64, shape, {type});
  if (keeps) {
    y = w.Reshaped(y, Ordered(w.ShapeOf(node.output()), order), node.output()->name);
    w.Hold(node.output(), y, order, Form::kNumbers);
  } else {
    w.Hold(node.output(), y, left, Form::kNumbers);
  }
}

void WriteSoftmax(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const int64_t rank = w.RankOf(x);
  const int opset = w.graph().opset();
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", opset < 13 ? 1 : -1), rank);
  const Shape dims = w.ShapeOf(x);
  if (opset < 13) {
    // Dimensions from the axis on are one there.
    for (int64_t i = axis; i < rank; ++i) {
      if (i != axis && dims[static_cast<size_t>(i)] != 1) {
        w.Refuse(RQ_LATE_TEXT("it joins several dimensions, as before opset 13"),
                 RQ_LATE_TEXT("raise the model to opset 13"));
      }
    }
  }
  Order order = w.NativeOrder(x);
  order.erase(std::find(order.begin(), order.end(), axis));
  order.push_back(axis);
  const Tail tail = w.TailOf(false);
  const bool is_log = node.Is("LogSoftmax");
  bool on_codes = !is_log && w.OnCodes(tail, {x}) && tail.grid->scales[0] >= 0.9F / 256;
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  Grid grid;
  if (on_codes) {
    const bool is_signed = w.code_type() == TensorType::kInt8;
    grid = {w.code_type(), {1.0F / 256}, {is_signed ? -128 : 0}, 0};
  }
  std::vector<Option> options;
  if (!is_log) options.push_back(RealOption(field::SoftmaxOptions::kBeta, 1));
  const int32_t input = w.Need(x, order, form);
  int32_t y = w.Add(is_log ? Builtin::kLOG_SOFTMAX : Builtin::kSOFTMAX, {input}, tail.value->name,
                    TensorType::kFloat32, Ordered(dims, order), options, grid);
  if (on_codes && grid != *tail.grid) {
    w.NoteRequantized(tail.value->name);
    y = w.Quantized(y, *tail.grid, tail.value->name);
  }
  w.Finish(tail, y, order, form);
}

void WriteCumSum(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Order order = w.NativeOrder(x);
  const auto axes = w.Ints(1, nullptr);
  const int64_t axis = NormalizeAxis(axes->at(0), w.RankOf(x));
  const int32_t place =
      w.AddConstant("axis", Tensor::Scalar(static_cast<int32_t>(PlaceOf(order, axis))));
  using Field = field::CumsumOptions;
  const int32_t y = w.Add(Builtin::kCUMSUM, {w.Need(x, order, Form::kNumbers), place},
                          node.output()->name, w.TypeOf(x), Ordered(w.ShapeOf(x), order),
                          {FlagOption(Field::kExclusive, node.attributes.Int("exclusive", 0) != 0),
                           FlagOption(Field::kReverse, node.attributes.Int("reverse", 0) != 0)});
  w.Hold(node.output(), y, order, Form::kNumbers);
}

void WriteLayerNormalization(Writer& w) {
  // (x - mean) / sqrt(mean((x - mean)^2) + epsilon) * scale + bias, over the dimensions from `axis`
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  for (const size_t slot : {1, 2}) {
    const Value* statistics = node.output(slot);
    if (statistics == nullptr || (statistics->consumers.empty() && !w.graph().IsOutput(statistics)))
      continue;
    w.Refuse("its mean is used", RQ_LATE_TEXT("compute it by ReduceMean"), statistics);
  }
  const Shape shape = w.ShapeOf(x);
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", -1), rank);
  Shape means = shape;
  std::vector<int64_t> places;
  for (int64_t i = axis; i < rank; ++i) {
    places.push_back(i);
    means[static_cast<size_t>(i)] = 1;
  }
  const std::string& name = node.output()->name;
  const auto add = [&](Builtin op, std::vector<int32_t> inputs, const Shape& dims) {
    return w.Add(op, std::move(inputs), name, TensorType::kFloat32, dims);
  };
  const auto mean = [&](int32_t input) {
    return w.Add(Builtin::kMEAN, {input, w.AddInts(places)}, name, TensorType::kFloat32, means,
                 {FlagOption(field::ReducerOptions::kKeepDims, true)});
  };
  const int32_t input = w.NeedPlain(x, Form::kNumbers);
  const int32_t centered = add(Builtin::kSUB, {input, mean(input)}, shape);
  const int32_t variance = mean(add(Builtin::kMUL, {centered, centered}, shape));
  const int32_t epsilon =
      w.AddConstant("epsilon", Tensor::Scalar(node.attributes.Float("epsilon", 1e-5F)));
  const int32_t factor =
      add(Builtin::kRSQRT, {add(Builtin::kADD, {variance, epsilon}, means)}, means);
  int32_t y = add(Builtin::kMUL, {centered, factor}, shape);
  y = add(Builtin::kMUL, {y, w.NeedPlain(node.inputs[1], Form::kNumbers)}, shape);
  if (node.input(2) != nullptr) {
    y = add(Builtin::kADD, {y, w.NeedPlain(node.inputs[2], Form::kNumbers)}, shape);
  }
  w.Hold(node.output(), y, PlainOrder(rank), Form::kNumbers);
}

}  // namespace requant::tflite

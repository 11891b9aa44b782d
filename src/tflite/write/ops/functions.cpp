// Functions of one value: activations, Clip, Cast.
#include <algorithm>
#include <cmath>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteFormula(Writer& w);
void WriteUnary(Writer& w);
void WriteClip(Writer& w);
void WriteHardSigmoid(Writer& w);
void WriteReciprocal(Writer& w);
void WriteQuickGelu(Writer& w);
void WriteCast(Writer& w);

namespace {

/// How LiteRT computes a function on codes.
enum class OnInts : uint8_t {
  kNever,
  kAnyGrid,
  kFixed,  // the result has the grid that kernels require
};

struct UnaryRow {
  const char* op;
  Builtin builtin;
  OnInts codes;
  float scale = 0;   // kFixed: of the result
  int64_t zero = 0;  // kFixed: of the result as int8
};

constexpr UnaryRow kRows[] = {
    {"Relu", Builtin::kRELU, OnInts::kAnyGrid},
    {"Sigmoid", Builtin::kLOGISTIC, OnInts::kFixed, 1.0F / 256, -128},
    {"Tanh", Builtin::kTANH, OnInts::kFixed, 1.0F / 128, 0},
    {"LeakyRelu", Builtin::kLEAKY_RELU, OnInts::kAnyGrid},
    {"HardSwish", Builtin::kHARD_SWISH, OnInts::kAnyGrid},
    {"Elu", Builtin::kELU, OnInts::kAnyGrid},
    {"Exp", Builtin::kEXP, OnInts::kNever},
    {"Log", Builtin::kLOG, OnInts::kNever},
    {"Sqrt", Builtin::kSQRT, OnInts::kNever},
    {"Neg", Builtin::kNEG, OnInts::kNever},
    {"Abs", Builtin::kABS, OnInts::kNever},
    {"Floor", Builtin::kFLOOR, OnInts::kNever},
    {"Ceil", Builtin::kCEIL, OnInts::kNever},
    {"Round", Builtin::kROUND, OnInts::kNever},
    {"Sin", Builtin::kSIN, OnInts::kNever},
    {"Cos", Builtin::kCOS, OnInts::kNever},
    {"Sign", Builtin::kSIGN, OnInts::kNever},
    {"Not", Builtin::kLOGICAL_NOT, OnInts::kNever},
    {"Gelu", Builtin::kGELU, OnInts::kAnyGrid},
};

int32_t Scalar(Writer& w, float number) { return w.AddConstant("number", Tensor::Scalar(number)); }

/// A Clip whose bounds the model computes.
void WriteComputedClip(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Order order = w.NativeOrder(x);
  int32_t y = w.Need(x, order, Form::kNumbers);
  for (const size_t slot : {1, 2}) {
    const Value* bound = node.input(slot);
    if (bound == nullptr) continue;
    y = w.Add(slot == 1 ? Builtin::kMAXIMUM : Builtin::kMINIMUM,
              {y, w.NeedPlain(bound, Form::kNumbers)}, node.output()->name, w.TypeOf(x),
              Ordered(w.ShapeOf(x), order));
  }
  w.Hold(node.output(), y, order, Form::kNumbers);
}

}  // namespace

void WriteUnary(Writer& w) {
  const Node& node = w.node();
  const UnaryRow& row = *std::find_if(std::begin(kRows), std::end(kRows),
                                      [&](const UnaryRow& one) { return node.op_type == one.op; });
  const Value* x = node.inputs[0];
  if (node.Is("Elu") && node.attributes.Float("alpha", 1) != 1) {
    WriteFormula(w);
    return;
  }
  const Order order = w.NativeOrder(x);
  const Shape shape = Ordered(w.ShapeOf(x), order);
  const Tail tail = w.TailOf(false);
  bool on_codes = row.codes != OnInts::kNever && w.OnCodes(tail, {x});
  // uint8 has fewer kernels.
  if (w.code_type() == TensorType::kUint8)
    on_codes = on_codes && !node.Is("Elu") && !node.Is("Gelu");
  Grid grid;
  if (on_codes) {
    grid = *tail.grid;
    if (row.codes == OnInts::kFixed) {
      grid.scales = {row.scale};
      grid.zeros = {row.zero + (w.code_type() == TensorType::kUint8 ? 128 : 0)};
      // A result on a coarser grid than the graph's would lose its last bits.
      on_codes = tail.grid->scales[0] >= 0.9F * row.scale;
      if (!on_codes) grid = {};
    }
  }
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  std::vector<Option> options;
  if (node.Is("LeakyRelu")) {
    options.push_back(
        RealOption(field::LeakyReluOptions::kAlpha, node.attributes.Float("alpha", 0.01F)));
  }
  if (node.op_type == "Gelu") {
    options.push_back(FlagOption(field::GeluOptions::kApproximate,
                                 node.attributes.String("approximate", "none") == "tanh"));
  }
  const int32_t input = w.Need(x, order, form);
  int32_t y =
      w.Add(row.builtin, {input}, tail.value->name, w.TypeOf(node.output()), shape, options, grid);
  if (on_codes && grid != *tail.grid) {
    w.NoteRequantized(tail.value->name);
    y = w.Quantized(y, *tail.grid, tail.value->name);
  }
  w.Finish(tail, y, order, form);
}

void WriteClip(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  for (const size_t slot : {1, 2}) {
    if (node.input(slot) == nullptr || w.IsConstant(node.input(slot))) continue;
    WriteComputedClip(w);
    return;
  }
  const auto bound = [&](size_t slot, const char* name, float open) {
    if (node.attributes.Has(name)) return node.attributes.Float(name, 0);
    const Value* value = node.input(slot);
    if (value == nullptr) return open;
    return static_cast<float>(w.ConstantOf(value, "bounds").AsDouble(0));
  };
  const float low = bound(1, "min", -INFINITY);
  const float high = bound(2, "max", INFINITY);
  const int64_t rank = w.RankOf(x);
  if (IsByte(x->type.dtype) && w.HasCodes(x)) {
    // Narrower codes: [-127, 127] differs from all of int8 by one step at one end.
    if (x->type.dtype == DType::kInt8 && low <= -127 && high >= 127) {
      w.Note(StrCat("'", x->name,
                    RQ_LATE_TEXT("' may have the code -128, where the model stops at -127")));
      w.Alias(node.output(), x, PlainOrder(rank));
      return;
    }
    w.Refuse(StrCat("its codes are ", static_cast<double>(low), " to ", static_cast<double>(high)),
             RQ_LATE_TEXT("quantize activations to 8 bits"), x);
  }
  const Order order = w.NativeOrder(x);
  const Shape shape = Ordered(w.ShapeOf(x), order);
  const TensorType type = w.TypeOf(x);
  if (type != TensorType::kFloat32) w.Refuse("it clips integers", "clip floats", x);
  const Tail tail = w.TailOf(false);
  const bool six = low == 0 && high == 6;
  const bool one = low == -1 && high == 1;
  const bool positive = low == 0 && high == INFINITY;
  const bool on_codes = (six || positive) && w.OnCodes(tail, {x});
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  int32_t y = w.Need(x, order, form);
  if (six || one || positive) {
    y = w.Add(six   ? Builtin::kRELU6
              : one ? Builtin::kRELU_N1_TO_1
                    : Builtin::kRELU,
              {y}, tail.value->name, type, shape, {}, on_codes ? *tail.grid : Grid{});
    w.Finish(tail, y, order, form);
    return;
  }
  const int32_t before = y;
  if (low != -INFINITY) {
    y = w.Add(Builtin::kMAXIMUM, {y, Scalar(w, low)}, tail.value->name, type, shape);
  }
  if (high != INFINITY) {
    y = w.Add(Builtin::kMINIMUM, {y, Scalar(w, high)}, tail.value->name, type, shape);
  }
  if (y == before) {
    w.Alias(node.output(), x, PlainOrder(rank));
    return;
  }
  w.Finish(tail, y, order, form);
}

void WriteHardSigmoid(Writer& w) {
  // max(0, min(1, alpha * x + beta))
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Order order = w.NativeOrder(x);
  const Shape shape = Ordered(w.ShapeOf(x), order);
  const std::string& name = node.output()->name;
  const TensorType type = TensorType::kFloat32;
  int32_t y = w.Need(x, order, Form::kNumbers);
  const auto step = [&](Builtin op, float number) {
    y = w.Add(op, {y, Scalar(w, number)}, name, type, shape);
  };
  step(Builtin::kMUL, node.attributes.Float("alpha", 0.2F));
  step(Builtin::kADD, node.attributes.Float("beta", 0.5F));
  step(Builtin::kMINIMUM, 1);
  step(Builtin::kMAXIMUM, 0);
  w.Hold(node.output(), y, order, Form::kNumbers);
}

void WriteReciprocal(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Order order = w.NativeOrder(x);
  const int32_t input = w.Need(x, order, Form::kNumbers);
  const int32_t y = w.Add(Builtin::kDIV, {Scalar(w, 1), input}, node.output()->name,
                          TensorType::kFloat32, Ordered(w.ShapeOf(x), order));
  w.Hold(node.output(), y, order, Form::kNumbers);
}

void WriteQuickGelu(Writer& w) {
  // x * sigmoid(alpha * x)
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Order order = w.NativeOrder(x);
  const Shape shape = Ordered(w.ShapeOf(x), order);
  const float alpha = node.attributes.Float("alpha", 1.702F);
  const Tail tail = w.TailOf(false);
  const std::string& name = tail.value->name;
  const TensorType type = TensorType::kFloat32;
  // On codes the sigmoid has a grid of its own, of 1 / 256.
  const bool on_codes = alpha == 1 && w.OnCodes(tail, {x});
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  const int32_t input = w.Need(x, order, form);
  Grid grid;
  if (on_codes) {
    grid = {w.code_type(), {1.0F / 256}, {w.code_type() == TensorType::kInt8 ? -128 : 0}, 0};
    w.NoteRequantized(name);
  }
  int32_t gate = input;
  if (alpha != 1) gate = w.Add(Builtin::kMUL, {gate, Scalar(w, alpha)}, name, type, shape);
  gate = w.Add(Builtin::kLOGISTIC, {gate}, StrCat(name, "_gate"), type, shape, {}, grid);
  const int32_t y =
      w.Add(Builtin::kMUL, {input, gate}, name, type, shape, {}, on_codes ? *tail.grid : Grid{});
  w.Finish(tail, y, order, form);
}

void WriteCast(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Order order = w.IsConstant(x) ? PlainOrder(w.RankOf(x)) : w.NativeOrder(x);
  if (!w.IsConstant(x) && IsByte(x->type.dtype) && w.HasCodes(x)) {
    w.Refuse("it casts codes", RQ_LATE_TEXT("read them with DequantizeLinear"), x);
  }
  const int32_t input = w.Need(x, order, Form::kNumbers);
  const TensorType type = w.TypeOf(node.output());
  if (w.tensor(input).type == type) {
    w.Hold(node.output(), input, order, Form::kNumbers);
    return;
  }
  const int32_t y =
      w.Add(Builtin::kCAST, {input}, node.output()->name, type, Ordered(w.ShapeOf(x), order));
  w.Hold(node.output(), y, order, Form::kNumbers);
}

}  // namespace requant::tflite

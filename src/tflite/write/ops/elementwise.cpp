// Operators of two values that broadcast: arithmetic, comparisons, PRelu, Where.
#include <algorithm>

#include "base/str_cat.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteBinary(Writer& w);
void WriteWhere(Writer& w);

namespace {

struct BinaryRow {
  const char* op;
  Builtin builtin;
  bool activation;  // has a fused one
  bool codes;       // computes on codes of any grids
  bool selects;     // computes on codes of one grid
};

constexpr BinaryRow kRows[] = {
    {"Add", Builtin::kADD, true, true, false},
    {"Sub", Builtin::kSUB, true, true, false},
    {"Mul", Builtin::kMUL, true, true, false},
    {"Div", Builtin::kDIV, true, false, false},
    {"Pow", Builtin::kPOW, false, false, false},
    {"Min", Builtin::kMINIMUM, false, false, true},
    {"Max", Builtin::kMAXIMUM, false, false, true},
    {"PRelu", Builtin::kPRELU, false, true, false},
    {"Equal", Builtin::kEQUAL, false, false, false},
    {"Less", Builtin::kLESS, false, false, false},
    {"LessOrEqual", Builtin::kLESS_EQUAL, false, false, false},
    {"Greater", Builtin::kGREATER, false, false, false},
    {"GreaterOrEqual", Builtin::kGREATER_EQUAL, false, false, false},
    {"And", Builtin::kLOGICAL_AND, false, false, false},
    {"Or", Builtin::kLOGICAL_OR, false, false, false},
};

/// An operand of a result of that rank and order: leading dimensions of 1 are added, and those of a
/// constant left out again.
int32_t Operand(Writer& w, const Value* value, const Order& order, Form form) {
  Shape shape = w.ShapeOf(value);
  const auto rank = order.size();
  if (shape.size() == rank) {
    const int32_t index = w.Need(value, order, form);
    return index;
  }
  const int32_t plain = w.NeedPlain(value, form);
  if (NumElements(shape) == 1) return plain;
  shape.insert(shape.begin(), rank - shape.size(), 1);
  if (order == PlainOrder(static_cast<int64_t>(rank))) return plain;
  const int32_t wide = w.Reshaped(plain, shape, StrCat(value->name, "_reshaped"));
  return w.Transposed(wide, order, value->name);
}

/// An operand that is a constant: it is put in order when the file is written.
int32_t ConstantOperand(Writer& w, const Value* value, const Order& order, Form form) {
  Tensor data = form == Form::kCodes ? w.CodesOf(value)->codes : w.ConstantOf(value, "values");
  Shape shape = data.shape();
  if (shape.size() < order.size()) {
    shape.insert(shape.begin(), order.size() - shape.size(), 1);
  }
  data = TransposedData(data.Reshaped(shape), order);
  shape = data.shape();
  while (!shape.empty() && shape.front() == 1) shape.erase(shape.begin());
  Grid grid;
  if (form == Form::kCodes) grid = w.GridOf(value);
  return w.AddConstant(value->name, data.Reshaped(shape), grid);
}

int32_t AnyOperand(Writer& w, const Value* value, const Order& order, Form form) {
  return w.IsConstant(value) ? ConstantOperand(w, value, order, form)
                             : Operand(w, value, order, form);
}

}  // namespace

void WriteBinary(Writer& w) {
  const Node& node = w.node();
  const BinaryRow& row = *std::find_if(std::begin(kRows), std::end(kRows),
                                       [&](const BinaryRow& one) { return node.Is(one.op); });
  const int64_t rank = w.RankOf(node.output());
  const Order order = w.OrderFor(node.inputs, rank);
  const bool pair = node.inputs.size() == 2;
  Tail tail = w.TailOf(row.activation && pair);
  const std::vector<const Value*> values(node.inputs.begin(), node.inputs.end());
  bool on_codes = pair && (row.codes || row.selects) && w.OnCodes(tail, values);
  if (on_codes && row.selects) {
    on_codes = w.GridOf(values[0]) == w.GridOf(values[1]) && w.GridOf(values[0]) == *tail.grid;
  }
  if (on_codes && node.Is("PRelu")) on_codes = w.code_type() == TensorType::kInt8;
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  TensorType type = w.TypeOf(node.output());
  if (!pair && node.inputs.empty()) w.Refuse("it has no inputs", "give it some");
  // Min and Max of several values are pairs one after another.
  int32_t y = AnyOperand(w, node.inputs[0], order, form);
  const Shape last = Ordered(w.ShapeOf(node.output()), order);
  if (!pair && node.inputs.size() == 1) {
    w.Alias(node.output(), node.inputs[0], PlainOrder(rank));
    return;
  }
  for (size_t i = 1; i < node.inputs.size(); ++i) {
    const bool end = i + 1 == node.inputs.size();
    const int32_t other = AnyOperand(w, node.inputs[i], order, form);
    const Shape shape = end ? last : BroadcastShapes(w.tensor(y).shape, w.tensor(other).shape);
    std::vector<Option> options;
    if (row.activation && pair) {
      options.push_back(
          ByteOption(field::ActivationOptions::kActivation, static_cast<int32_t>(tail.activation)));
    }
    y = w.Add(row.builtin, {y, other}, tail.value->name, type, shape, options,
              on_codes ? *tail.grid : Grid{});
  }
  w.Finish(tail, y, order, form);
}

void WriteWhere(Writer& w) {
  const Node& node = w.node();
  const Order order = w.OrderFor(node.inputs, w.RankOf(node.output()));
  std::vector<int32_t> inputs;
  for (const Value* value : node.inputs) {
    inputs.push_back(AnyOperand(w, value, order, Form::kNumbers));
  }
  const int32_t y = w.Add(Builtin::kSELECT_V2, inputs, node.output()->name, w.TypeOf(node.output()),
                          Ordered(w.ShapeOf(node.output()), order));
  w.Hold(node.output(), y, order, Form::kNumbers);
}

}  // namespace requant::tflite

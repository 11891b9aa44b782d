// Operators that move or select elements: they compute on codes as on numbers.
#include <algorithm>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteIdentity(Writer& w);
void WriteTranspose(Writer& w);
void WriteReshape(Writer& w);
void WriteExpand(Writer& w);
void WriteTile(Writer& w);
void WriteGather(Writer& w);
void WriteDepthToSpace(Writer& w);
void WriteSpaceToDepth(Writer& w);

void WriteIdentity(Writer& w) {
  const Node& node = w.node();
  if (node.Is("Dropout") && node.output(1) != nullptr && !node.output(1)->consumers.empty()) {
    w.Refuse("its mask is used", RQ_LATE_TEXT("take Dropout out of the model"), node.output(1));
  }
  const Value* x = node.inputs[0];
  const Order plain = PlainOrder(w.RankOf(x));
  if (w.IsConstant(x)) w.Hold(x, w.NeedPlain(x, Form::kNumbers), plain, Form::kNumbers);
  w.Alias(node.output(), x, plain);
}

void WriteTranspose(Writer& w) {
  const Node& node = w.node();
  if (w.IsConstant(node.output())) return;
  const Order plain = PlainOrder(w.RankOf(node.inputs[0]));
  w.Alias(node.output(), node.inputs[0],
          node.attributes.Ints("perm", Order(plain.rbegin(), plain.rend())));
}

void WriteReshape(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Form form = w.NativeForm(x);
  const Shape shape = w.ShapeOf(node.output());
  const int32_t y = w.Reshaped(w.NeedPlain(x, form), shape, node.output()->name);
  w.Hold(node.output(), y, PlainOrder(static_cast<int64_t>(shape.size())), form);
}

void WriteExpand(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Form form = w.NativeForm(x);
  const Shape shape = w.ShapeOf(node.output());
  int32_t y = w.NeedPlain(x, form);
  const Grid grid = w.tensor(y).grid;
  if (w.tensor(y).shape != shape) {
    const int32_t dims = w.AddInts(shape);
    y = w.Add(Builtin::kBROADCAST_TO, {y, dims}, node.output()->name, w.TypeOf(x), shape, {}, grid);
  }
  w.Hold(node.output(), y, PlainOrder(static_cast<int64_t>(shape.size())), form);
}

void WriteTile(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Form form = w.NativeForm(x);
  const Order order = w.NativeOrder(x);
  const auto repeats = w.Ints(1, nullptr);
  const int32_t input = w.Need(x, order, form);
  const Grid grid = w.tensor(input).grid;
  const int32_t counts = w.AddInts(Ordered(*repeats, order));
  const int32_t y = w.Add(Builtin::kTILE, {input, counts}, node.output()->name, w.TypeOf(x),
                          Ordered(w.ShapeOf(node.output()), order), {}, grid);
  w.Hold(node.output(), y, order, form);
}

void WriteGather(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Value* indices = node.inputs[1];
  const int64_t rank = w.RankOf(x);
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", 0), rank);
  const Form form = w.NativeForm(x);
  const int32_t input = w.NeedPlain(x, form);
  const Shape dims = w.ShapeOf(x);
  int32_t places = 0;
  if (w.IsConstant(indices)) {
    const Tensor given = w.ConstantOf(indices, "indices");
    std::vector<int32_t> wrapped;
    for (const int64_t index : given.ToInts()) {
      const int64_t size = dims[static_cast<size_t>(axis)];
      wrapped.push_back(static_cast<int32_t>(index < 0 ? index + size : index));
    }
    places = w.AddConstant(indices->name, Tensor::FromVector(wrapped, given.shape()));
  } else {
    places = w.NeedPlain(indices, Form::kNumbers);
  }
  const Grid grid = w.tensor(input).grid;
  const Shape shape = w.ShapeOf(node.output());
  using Field = field::GatherOptions;
  const int32_t y =
      w.Add(Builtin::kGATHER, {input, places}, node.output()->name, w.TypeOf(x), shape,
            {IntOption(Field::kAxis, axis), IntOption(Field::kBatchDims, 0)}, grid);
  w.Hold(node.output(), y, PlainOrder(static_cast<int64_t>(shape.size())), form);
}

void WriteDepthToSpace(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Form form = w.NativeForm(x);
  const int64_t block = node.attributes.Int("blocksize", 0);
  const Order order = ChannelsLast(4);
  int32_t input = w.Need(x, order, form);
  const Grid grid = w.tensor(input).grid;
  const Shape shape = w.tensor(input).shape;
  if (node.attributes.String("mode", "DCR") == "CRD") {
    // Channel (c, i, j) becomes (i, j, c), which DEPTH_TO_SPACE takes.
    std::vector<int32_t> channels;
    const int64_t squares = block * block;
    for (int64_t cell = 0; cell < squares; ++cell) {
      for (int64_t c = 0; c < shape[3] / squares; ++c) {
        channels.push_back(static_cast<int32_t>(c * squares + cell));
      }
    }
    const int32_t places = w.AddConstant("channels", Tensor::Vector(channels));
    input = w.Add(Builtin::kGATHER, {input, places}, x->name, w.TypeOf(x), shape,
                  {IntOption(field::GatherOptions::kAxis, 3)}, grid);
  }
  const int32_t y = w.Add(Builtin::kDEPTH_TO_SPACE, {input}, node.output()->name, w.TypeOf(x),
                          Ordered(w.ShapeOf(node.output()), order),
                          {IntOption(field::BlockOptions::kBlockSize, block)}, grid);
  w.Hold(node.output(), y, order, form);
}

void WriteSpaceToDepth(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Form form = w.NativeForm(x);
  const Order order = ChannelsLast(4);
  const int32_t input = w.Need(x, order, form);
  const Grid grid = w.tensor(input).grid;
  const int32_t y = w.Add(
      Builtin::kSPACE_TO_DEPTH, {input}, node.output()->name, w.TypeOf(x),
      Ordered(w.ShapeOf(node.output()), order),
      {IntOption(field::BlockOptions::kBlockSize, node.attributes.Int("blocksize", 0))}, grid);
  w.Hold(node.output(), y, order, form);
}

}  // namespace requant::tflite

// Operators that pick and place elements by positions: GatherND, ScatterND, OneHot, Trilu.
#include <algorithm>

#include "base/checked_math.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "tflite/write/writer.h"

namespace requant::tflite {

void WriteGatherNd(Writer& w);
void WriteScatterNd(Writer& w);
void WriteOneHot(Writer& w);
void WriteTrilu(Writer& w);

namespace {

/// A mask of more elements is refused.
constexpr int64_t kMostMask = int64_t{1} << 24;

/// The positions [..., k] in the first k of `dims`. Known ones that count from the end are turned,
/// as TFLite has no such.
int32_t Positions(Writer& w, const Value* indices, const Shape& dims) {
  if (!w.IsConstant(indices)) return w.NeedPlain(indices, Form::kNumbers);
  const Tensor given = w.ConstantOf(indices, "indices");
  const std::vector<int64_t> numbers = given.ToInts();
  const auto depth = static_cast<size_t>(given.dim(given.rank() - 1));
  std::vector<int32_t> turned;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t size = dims[i % depth];
    turned.push_back(static_cast<int32_t>(numbers[i] < 0 ? numbers[i] + size : numbers[i]));
  }
  return w.AddConstant(indices->name, Tensor::FromVector(turned, given.shape()));
}

}  // namespace

void WriteGatherNd(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  if (node.attributes.Int("batch_dims", 0) != 0) {
    w.Refuse(RQ_LATE_TEXT("it has batch dimensions"),
             RQ_LATE_TEXT("give all positions, and no batch_dims"));
  }
  const Form form = w.NativeForm(x);
  const int32_t input = w.NeedPlain(x, form);
  const int32_t places = Positions(w, node.inputs[1], w.ShapeOf(x));
  const Grid grid = w.tensor(input).grid;
  const Shape shape = w.ShapeOf(node.output());
  const int32_t y = w.Add(Builtin::kGATHER_ND, {input, places}, node.output()->name, w.TypeOf(x),
                          shape, {}, grid);
  w.Hold(node.output(), y, PlainOrder(static_cast<int64_t>(shape.size())), form);
}

void WriteScatterNd(Writer& w) {
  // SCATTER_ND adds the updates to zeros. They replace elements where a mask says so.
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Value* indices = node.inputs[1];
  const std::string reduction = node.attributes.String("reduction", "none");
  if (reduction != "none" && reduction != "add") {
    w.Refuse(StrCat("its reduction is '", reduction, "'"), RQ_LATE_TEXT("use 'none' or 'add'"));
  }
  const TensorType type = w.TypeOf(x);
  const Shape shape = w.ShapeOf(x);
  const Order plain = PlainOrder(static_cast<int64_t>(shape.size()));
  const int32_t data = w.NeedPlain(x, Form::kNumbers);
  const int32_t updates = w.NeedPlain(node.inputs[2], Form::kNumbers);
  int32_t places = Positions(w, indices, shape);
  if (w.tensor(places).type != TensorType::kInt32) {
    const Shape list = w.tensor(places).shape;
    places =
        w.Add(Builtin::kCAST, {places}, StrCat(indices->name, "_int32"), TensorType::kInt32, list);
  }
  const int32_t dims = w.AddInts(shape);
  const std::string& name = node.output()->name;
  const int32_t placed =
      w.Add(Builtin::kSCATTER_ND, {places, updates, dims}, StrCat(name, "_placed"), type, shape);
  int32_t y = 0;
  if (reduction == "add") {
    y = w.Add(Builtin::kADD, {data, placed}, name, type, shape);
  } else {
    const int64_t count = NumElements(w.ShapeOf(node.inputs[2]));
    const Tensor ones = Tensor::FromVector(std::vector<int32_t>(static_cast<size_t>(count), 1),
                                           w.ShapeOf(node.inputs[2]));
    const int32_t hits = w.Add(Builtin::kSCATTER_ND, {places, w.AddConstant("ones", ones), dims},
                               StrCat(name, "_hits"), TensorType::kInt32, shape);
    const int32_t zero = w.AddConstant("zero", Tensor::Scalar(int32_t{0}));
    const int32_t mask =
        w.Add(Builtin::kGREATER, {hits, zero}, StrCat(name, "_mask"), TensorType::kBool, shape);
    y = w.Add(Builtin::kSELECT_V2, {mask, placed, data}, name, type, shape);
  }
  w.Hold(node.output(), y, plain, Form::kNumbers);
}

void WriteOneHot(Writer& w) {
  const Node& node = w.node();
  const Value* indices = node.inputs[0];
  const Tensor depth = w.ConstantOf(node.inputs[1], "depth");
  const Tensor values = w.ConstantOf(node.inputs[2], "values");
  if (!IsInteger(indices->type.dtype)) {
    w.Refuse(RQ_LATE_TEXT("its indices are no integers"), RQ_LATE_TEXT("cast them to int64"),
             indices);
  }
  const auto count = static_cast<int32_t>(depth.AsInt64(0));
  const Shape shape = w.ShapeOf(indices);
  const auto at = [&](int64_t index) {
    Tensor one(values.dtype(), {});
    std::memcpy(one.raw(),
                static_cast<const uint8_t*>(values.raw()) +
                    static_cast<size_t>(index) * DTypeBytes(values.dtype(), 1),
                DTypeBytes(values.dtype(), 1));
    return one;
  };
  // Indices below 0 count from the end.
  const int32_t given = w.NeedPlain(indices, Form::kNumbers);
  const TensorType type = w.tensor(given).type;
  const bool wide = type == TensorType::kInt64;
  const auto number = [&](int32_t value) {
    return w.AddConstant("number", wide ? Tensor::Scalar(int64_t{value}) : Tensor::Scalar(value));
  };
  const int32_t below = w.Add(Builtin::kLESS, {given, number(0)}, StrCat(indices->name, "_below"),
                              TensorType::kBool, shape);
  const int32_t moved =
      w.Add(Builtin::kADD, {given, number(count)}, StrCat(indices->name, "_moved"), type, shape);
  const int32_t places = w.Add(Builtin::kSELECT_V2, {below, moved, given},
                               StrCat(indices->name, "_turned"), type, shape);
  const int32_t size = w.AddConstant("depth", Tensor::Scalar(count));
  const int32_t on = w.AddConstant("on", at(1));
  const int32_t off = w.AddConstant("off", at(0));
  const Shape result = w.ShapeOf(node.output());
  const auto rank = static_cast<int64_t>(result.size());
  const int64_t axis = NormalizeAxis(node.attributes.Int("axis", -1), rank);
  const int32_t y =
      w.Add(Builtin::kONE_HOT, {places, size, on, off}, node.output()->name,
            w.TypeOf(node.output()), result, {IntOption(field::OneHotOptions::kAxis, axis)});
  w.Hold(node.output(), y, PlainOrder(rank), Form::kNumbers);
}

void WriteTrilu(Writer& w) {
  const Node& node = w.node();
  const Value* x = node.inputs[0];
  const Shape shape = w.ShapeOf(x);
  const int64_t rows = shape[shape.size() - 2];
  const int64_t columns = shape.back();
  const int64_t shift = node.input(1) ? w.ConstantOf(node.inputs[1], "k").AsInt64(0) : 0;
  const bool upper = node.attributes.Int("upper", 1) != 0;
  if (CheckedMul64(rows, columns) > kMostMask) {
    w.Refuse(RQ_LATE_TEXT("its matrices are too large"), RQ_LATE_TEXT("multiply with a mask"));
  }
  Tensor mask(DType::kBool, {rows, columns});
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      mask.data<bool>()[row * columns + column] =
          upper ? column >= row + shift : column <= row + shift;
    }
  }
  const int32_t input = w.NeedPlain(x, Form::kNumbers);
  const int32_t zero = w.AddConstant("zero", Tensor(x->type.dtype, {}));
  const int32_t y = w.Add(Builtin::kSELECT_V2, {w.AddConstant("mask", mask), input, zero},
                          node.output()->name, w.TypeOf(x), shape);
  w.Hold(node.output(), y, PlainOrder(static_cast<int64_t>(shape.size())), Form::kNumbers);
}

}  // namespace requant::tflite

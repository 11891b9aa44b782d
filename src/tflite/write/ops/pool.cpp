// MaxPool, AveragePool, and pools of the whole image.
#include <algorithm>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/write/ops/window.h"

namespace requant::tflite {

void WriteMaxPool(Writer& w);
void WriteAveragePool(Writer& w);
void WriteGlobalPool(Writer& w);

namespace {

void AddPool(Writer& w, Builtin op, const Geometry& g, const PaddedImage& x, Form form) {
  for (const int64_t dilation : g.dilation) {
    if (dilation != 1) w.Refuse(RQ_LATE_TEXT("its window is dilated"), "use dilations of 1");
  }
  using Field = field::Pool2DOptions;
  Tail tail;
  tail.value = w.node().output();
  const Grid grid = w.tensor(x.image.tensor).grid;
  const int32_t y =
      w.Add(op, {x.image.tensor}, tail.value->name, TensorType::kFloat32, ImageShape(w, tail.value),
            {ByteOption(Field::kPadding, static_cast<int32_t>(x.padding)),
             IntOption(Field::kStrideW, g.stride[2]), IntOption(Field::kStrideH, g.stride[1]),
             IntOption(Field::kFilterW, g.kernel[2]), IntOption(Field::kFilterH, g.kernel[1])},
            grid);
  FinishImage(w, tail, y, form);
}

}  // namespace

void WriteMaxPool(Writer& w) {
  const Node& node = w.node();
  if (node.output(1) != nullptr) {
    w.Refuse(RQ_LATE_TEXT("its indices are used"), RQ_LATE_TEXT("compute them without MaxPool"),
             node.output(1));
  }
  const Form form = w.NativeForm(node.inputs[0]);
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), w.ShapeOf(node.inputs[0]));
  AddPool(w, Builtin::kMAX_POOL_2D, g, Padded(w, ImageOf(w, node.inputs[0], form), g, true), form);
}

void WriteAveragePool(Writer& w) {
  const Node& node = w.node();
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), w.ShapeOf(node.inputs[0]));
  const Form form = w.FormOnOneGrid(w.TailOf(false), node.inputs[0]);
  const Image image = ImageOf(w, node.inputs[0], form);
  const bool counts_pads = node.attributes.Int("count_include_pad", 0) != 0;
  int64_t reach[3] = {0, 0, 0};
  bool padded = false;
  for (const size_t axis : {1, 2}) {
    reach[axis] =
        (g.output[axis] - 1) * g.stride[axis] + g.kernel[axis] - g.pad_begin[axis] - g.input[axis];
    padded = padded || g.pad_begin[axis] > 0 || reach[axis] > 0;
  }
  if (!padded) {
    AddPool(w, Builtin::kAVERAGE_POOL_2D, g, {image, Padding::kValid}, form);
    return;
  }
  if (!counts_pads) {
    if (!IsSame(g)) {
      w.Refuse(RQ_LATE_TEXT("it leaves out pads that are not SAME"),
               RQ_LATE_TEXT("use pads of SAME_UPPER, or none"));
    }
    AddPool(w, Builtin::kAVERAGE_POOL_2D, g, {image, Padding::kSame}, form);
    return;
  }
  // Pads count, but not what a window of ceil_mode has beyond them.
  for (const size_t axis : {1, 2}) {
    if (reach[axis] > g.pad_end[axis]) {
      w.Refuse(RQ_LATE_TEXT("its last window ends beyond the pads"), "use ceil_mode 0");
    }
  }
  const Image zeros =
      PadImage(w, image, g.pad_begin[1], g.pad_begin[2], std::max<int64_t>(reach[1], 0),
               std::max<int64_t>(reach[2], 0), false);
  AddPool(w, Builtin::kAVERAGE_POOL_2D, g, {zeros, Padding::kValid}, form);
}

void WriteGlobalPool(Writer& w) {
  const Node& node = w.node();
  const bool mean = node.Is("GlobalAveragePool");
  Tail tail = w.TailOf(false);
  const bool on_codes = mean ? w.OnCodes(tail, {node.inputs[0]}) && tail.nodes.empty()
                             : w.NativeForm(node.inputs[0]) == Form::kCodes;
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  if (!on_codes || !mean) {
    tail = {};
    tail.value = node.output();
  }
  const Image image = ImageOf(w, node.inputs[0], form);
  Grid grid;
  if (on_codes) grid = mean ? *tail.grid : w.tensor(image.tensor).grid;
  const int32_t axes = w.AddInts({1, 2});
  const int32_t y = w.Add(mean ? Builtin::kMEAN : Builtin::kREDUCE_MAX, {image.tensor, axes},
                          tail.value->name, TensorType::kFloat32, ImageShape(w, tail.value),
                          {FlagOption(field::ReducerOptions::kKeepDims, true)}, grid);
  FinishImage(w, tail, y, form);
}

}  // namespace requant::tflite

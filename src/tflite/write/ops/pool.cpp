// MaxPool, AveragePool, and pools of the whole image.
#include <algorithm>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/write/ops/volume.h"
#include "tflite/write/ops/window.h"

namespace requant::tflite {

void WriteMaxPool(Writer& w);
void WriteAveragePool(Writer& w);
void WriteGlobalPool(Writer& w);

namespace {

/// For each window of an average, the pixels of the kernel by those that count: [1, H, W, 1].
Tensor Shares(const Geometry& g, bool counts_pads) {
  std::vector<float> shares[2];
  for (const size_t axis : {1, 2}) {
    const int64_t first = counts_pads ? -g.pad_begin[axis] : 0;
    const int64_t end = g.input[axis] + (counts_pads ? g.pad_end[axis] : 0);
    for (int64_t i = 0; i < g.output[axis]; ++i) {
      const int64_t start = i * g.stride[axis] - g.pad_begin[axis];
      const int64_t counted = std::min(start + g.kernel[axis], end) - std::max(start, first);
      shares[axis - 1].push_back(static_cast<float>(g.kernel[axis]) /
                                 static_cast<float>(std::max<int64_t>(counted, 1)));
    }
  }
  std::vector<float> products;
  for (const float row : shares[0]) {
    for (const float column : shares[1]) products.push_back(row * column);
  }
  return Tensor::FromVector(products, {1, g.output[1], g.output[2], 1});
}

/// `shares`: numbers that the result is multiplied by, if there are any.
void AddPool(Writer& w, Builtin op, const Geometry& g, const PaddedImage& x, Form form,
             Tensor shares = {}) {
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
  if (shares.empty()) return FinishImage(w, tail, y, form);
  const int32_t factors = w.AddConstant("shares", std::move(shares));
  FinishImage(w, tail,
              w.Add(Builtin::kMUL, {y, factors}, tail.value->name, TensorType::kFloat32,
                    ImageShape(w, tail.value)),
              form);
}

}  // namespace

void WriteMaxPool(Writer& w) {
  const Node& node = w.node();
  if (node.output(1) != nullptr) {
    w.Refuse(RQ_LATE_TEXT("its indices are used"), RQ_LATE_TEXT("compute them without MaxPool"),
             node.output(1));
  }
  if (w.RankOf(node.inputs[0]) == 5) return WritePool3D(w, true);
  const Form form = w.NativeForm(node.inputs[0]);
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), w.ShapeOf(node.inputs[0]));
  AddPool(w, Builtin::kMAX_POOL_2D, g, Padded(w, ImageOf(w, node.inputs[0], form), g, true), form);
}

void WriteAveragePool(Writer& w) {
  const Node& node = w.node();
  if (w.RankOf(node.inputs[0]) == 5) return WritePool3D(w, false);
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), w.ShapeOf(node.inputs[0]));
  const bool counts_pads = node.attributes.Int("count_include_pad", 0) != 0;
  int64_t reach[3] = {0, 0, 0};
  bool padded = false;
  bool beyond = false;  // a last window of ceil_mode ends beyond the pads
  for (const size_t axis : {1, 2}) {
    reach[axis] =
        (g.output[axis] - 1) * g.stride[axis] + g.kernel[axis] - g.pad_begin[axis] - g.input[axis];
    padded = padded || g.pad_begin[axis] > 0 || reach[axis] > 0;
    beyond = beyond || reach[axis] > g.pad_end[axis];
  }
  // LiteRT counts no pads of SAME, and all of a PAD. Others are made right by a multiplication.
  const bool same = padded && !counts_pads && IsSame(g);
  const bool shared = padded && !same && (!counts_pads || beyond);
  const Form form = shared ? Form::kNumbers : w.FormOnOneGrid(w.TailOf(false), node.inputs[0]);
  const Image image = ImageOf(w, node.inputs[0], form);
  if (!padded || same) {
    AddPool(w, Builtin::kAVERAGE_POOL_2D, g, {image, same ? Padding::kSame : Padding::kValid},
            form);
    return;
  }
  const Image zeros =
      PadImage(w, image, g.pad_begin[1], g.pad_begin[2], std::max<int64_t>(reach[1], 0),
               std::max<int64_t>(reach[2], 0), false);
  AddPool(w, Builtin::kAVERAGE_POOL_2D, g, {zeros, Padding::kValid}, form,
          shared ? Shares(g, counts_pads) : Tensor());
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

#include "tflite/write/ops/volume.h"

#include <algorithm>
#include <limits>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "ops/shape_rules.h"
#include "tflite/write/ops/weights.h"

namespace requant::tflite {
namespace {

/// The pads at the end of each dimension, which the last window may leave unused.
struct Ends {
  int64_t pads[3];
  bool none = true;
  bool same = true;  // SAME is this padding
};

Ends EndsOf(const Geometry& g) {
  Ends ends{};
  for (size_t axis = 0; axis < 3; ++axis) {
    const int64_t extent = (g.kernel[axis] - 1) * g.dilation[axis] + 1;
    const int64_t reach = (g.output[axis] - 1) * g.stride[axis] + extent;
    ends.pads[axis] = std::max<int64_t>(reach - g.pad_begin[axis] - g.input[axis], 0);
    ends.none = ends.none && g.pad_begin[axis] == 0 && ends.pads[axis] == 0;
    const int64_t windows = (g.input[axis] + g.stride[axis] - 1) / g.stride[axis];
    const int64_t total =
        std::max<int64_t>((windows - 1) * g.stride[axis] + extent - g.input[axis], 0);
    ends.same = ends.same && g.output[axis] == windows && g.pad_begin[axis] == total / 2;
  }
  return ends;
}

/// A PAD of a volume [N, D, H, W, C], with the least number for a maximum.
int32_t PadVolume(Writer& w, int32_t volume, const Geometry& g, const Ends& ends, bool least) {
  const NetTensor from = w.tensor(volume);
  Shape shape = from.shape;
  std::vector<int32_t> table(10, 0);
  for (size_t axis = 0; axis < 3; ++axis) {
    table[2 * axis + 2] = static_cast<int32_t>(g.pad_begin[axis]);
    table[2 * axis + 3] = static_cast<int32_t>(ends.pads[axis]);
    shape[axis + 1] += g.pad_begin[axis] + ends.pads[axis];
  }
  std::vector<int32_t> inputs = {volume, w.AddConstant("pads", Tensor::FromVector(table, {5, 2}))};
  if (least) {
    inputs.push_back(
        w.AddConstant("least", Tensor::Vector<float>({std::numeric_limits<float>::lowest()})));
  }
  w.NotePad();
  return w.Add(least ? Builtin::kPADV2 : Builtin::kPAD, inputs, StrCat(from.name, "_padded"),
               from.type, shape);
}

/// For each window of an average, the voxels of the kernel by those that count: [1, D, H, W, 1].
Tensor Shares(const Geometry& g, bool counts_pads) {
  Tensor out(DType::kFloat32, {1, g.output[0], g.output[1], g.output[2], 1});
  for (int64_t place = 0; place < out.count(); ++place) {
    int64_t rest = place;
    double share = 1;
    for (size_t axis = 3; axis-- > 0;) {
      const int64_t start = rest % g.output[axis] * g.stride[axis] - g.pad_begin[axis];
      rest /= g.output[axis];
      const int64_t first = counts_pads ? -g.pad_begin[axis] : 0;
      const int64_t end = g.input[axis] + (counts_pads ? g.pad_end[axis] : 0);
      const int64_t counted = std::min(start + g.kernel[axis], end) - std::max(start, first);
      share *=
          static_cast<double>(g.kernel[axis]) / static_cast<double>(std::max<int64_t>(counted, 1));
    }
    out.data<float>()[place] = static_cast<float>(share);
  }
  return out;
}

}  // namespace

void WriteConv3D(Writer& w) {
  const Node& node = w.node();
  const Value* weights = node.inputs[1];
  const Shape kernel = w.ShapeOf(weights);
  if (node.attributes.Int("group", 1) != 1) {
    w.Refuse(RQ_LATE_TEXT("it has groups over three spatial dimensions"),
             RQ_LATE_TEXT("split it into a convolution for each group"));
  }
  const Geometry g = PlaceGeometry(ConvWindow(node.attributes, kernel), w.ShapeOf(node.inputs[0]));
  const Ends ends = EndsOf(g);
  const Tail tail = w.TailOf(true);
  int32_t x = w.Need(node.inputs[0], ChannelsLast(5), Form::kNumbers);
  if (!ends.none && !ends.same) x = PadVolume(w, x, g, ends, false);
  // [O, I, D, H, W] becomes [D, H, W, I, O].
  const Tensor arranged = TransposedData(w.ConstantOf(weights, "weights"), {2, 3, 4, 1, 0});
  const int32_t filter = w.AddFloats(weights->name, arranged);
  const int32_t bias = AddFloatBias(w, node.input(2), kernel[0]);
  using Field = field::Conv3DOptions;
  const Padding padding = !ends.none && ends.same ? Padding::kSame : Padding::kValid;
  const int32_t y = w.Add(
      Builtin::kCONV_3D, {x, filter, bias}, tail.value->name, TensorType::kFloat32,
      Ordered(w.ShapeOf(node.output()), ChannelsLast(5)),
      {ByteOption(Field::kPadding, static_cast<int32_t>(padding)),
       IntOption(Field::kStrideD, g.stride[0]), IntOption(Field::kStrideW, g.stride[2]),
       IntOption(Field::kStrideH, g.stride[1]),
       ByteOption(Field::kActivation, static_cast<int32_t>(tail.activation)),
       IntOption(Field::kDilationD, g.dilation[0]), IntOption(Field::kDilationW, g.dilation[2]),
       IntOption(Field::kDilationH, g.dilation[1])});
  w.Finish(tail, y, ChannelsLast(5), Form::kNumbers);
}

void WritePool3D(Writer& w, bool maximum) {
  const Node& node = w.node();
  const Value* value = node.inputs[0];
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), w.ShapeOf(value));
  const Ends ends = EndsOf(g);
  if (std::any_of(g.dilation.begin(), g.dilation.end(), [](int64_t one) { return one != 1; }))
    w.Refuse(RQ_LATE_TEXT("its window is dilated"), "use dilations of 1");
  int32_t x = w.Need(value, ChannelsLast(5), Form::kNumbers);
  if (!ends.none) x = PadVolume(w, x, g, ends, maximum);
  const Shape from = w.tensor(x).shape;
  const std::string& name = node.output()->name;
  using Field = field::Pool2DOptions;
  const auto pool = [&](int32_t image, const Shape& shape, int64_t height, int64_t width,
                        int64_t stride_h, int64_t stride_w) {
    return w.Add(maximum ? Builtin::kMAX_POOL_2D : Builtin::kAVERAGE_POOL_2D, {image}, name,
                 TensorType::kFloat32, shape,
                 {ByteOption(Field::kPadding, static_cast<int32_t>(Padding::kValid)),
                  IntOption(Field::kStrideW, stride_w), IntOption(Field::kStrideH, stride_h),
                  IntOption(Field::kFilterW, width), IntOption(Field::kFilterH, height),
                  ByteOption(Field::kActivation, 0)});
  };
  // Every slice is an image of height and width, then every column of slices one of depth.
  const Shape to = Ordered(w.ShapeOf(node.output()), ChannelsLast(5));
  const int64_t area = to[2] * to[3];
  x = w.Reshaped(x, {from[0] * from[1], from[2], from[3], from[4]}, StrCat(name, "_slices"));
  x = pool(x, {from[0] * from[1], to[2], to[3], to[4]}, g.kernel[1], g.kernel[2], g.stride[1],
           g.stride[2]);
  x = w.Reshaped(x, {from[0], from[1], area, to[4]}, StrCat(name, "_columns"));
  x = pool(x, {to[0], to[1], area, to[4]}, g.kernel[0], 1, g.stride[0], 1);
  x = w.Reshaped(x, to, name);
  const Tensor shares = Shares(g, maximum || node.attributes.Int("count_include_pad", 0) != 0);
  const auto each = shares.values<float>();
  if (!maximum && std::any_of(each.begin(), each.end(), [](float share) { return share != 1; })) {
    x = w.Add(Builtin::kMUL, {x, w.AddConstant("shares", shares)}, name, TensorType::kFloat32, to,
              {ByteOption(field::ActivationOptions::kActivation, 0)});
  }
  w.Hold(node.output(), x, ChannelsLast(5), Form::kNumbers);
}

}  // namespace requant::tflite

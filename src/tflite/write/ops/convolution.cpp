// Conv: CONV_2D, DEPTHWISE_CONV_2D.
#include "base/str_cat.h"
#include "tflite/write/ops/volume.h"
#include "tflite/write/ops/weights.h"
#include "tflite/write/ops/window.h"

namespace requant::tflite {

void WriteConv(Writer& w);

namespace {

std::vector<Option> ConvOptions(const Geometry& g, Padding padding, Activation activation) {
  using Field = field::Conv2DOptions;
  return {ByteOption(Field::kPadding, static_cast<int32_t>(padding)),
          IntOption(Field::kStrideW, g.stride[2]),
          IntOption(Field::kStrideH, g.stride[1]),
          ByteOption(Field::kActivation, static_cast<int32_t>(activation)),
          IntOption(Field::kDilationW, g.dilation[2]),
          IntOption(Field::kDilationH, g.dilation[1])};
}

std::vector<Option> DepthwiseOptions(const Geometry& g, Padding padding, Activation activation,
                                     int64_t multiplier) {
  using Field = field::DepthwiseConv2DOptions;
  return {ByteOption(Field::kPadding, static_cast<int32_t>(padding)),
          IntOption(Field::kStrideW, g.stride[2]),
          IntOption(Field::kStrideH, g.stride[1]),
          IntOption(Field::kDepthMultiplier, multiplier),
          ByteOption(Field::kActivation, static_cast<int32_t>(activation)),
          IntOption(Field::kDilationW, g.dilation[2]),
          IntOption(Field::kDilationH, g.dilation[1])};
}

}  // namespace

void WriteConv(Writer& w) {
  const Node& node = w.node();
  const Value* weights = node.inputs[1];
  const Shape x_shape = w.ShapeOf(node.inputs[0]);
  Shape kernel = w.ShapeOf(weights);
  if (kernel.size() == 5) return WriteConv3D(w);
  const Window window = ConvWindow(node.attributes, kernel);
  const Geometry geometry = PlaceGeometry(window, x_shape);
  const int64_t outputs = kernel[0];
  const int64_t groups = node.attributes.Int("group", 1);
  const bool depthwise = groups > 1 && groups == x_shape[1];
  if (kernel.size() == 3) kernel.insert(kernel.begin() + 2, 1);

  const Tail tail = w.TailOf(true);
  auto codes = LayerCodes(w, weights, 0);
  const bool on_codes = codes && w.OnCodes(tail, {node.inputs[0]});
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  const PaddedImage x = Padded(w, ImageOf(w, node.inputs[0], form), geometry, false);

  // OIHW becomes OHWI, or for a depthwise layer, whose I is 1, IHWO.
  const Order order = depthwise ? Order{1, 2, 3, 0} : Order{0, 2, 3, 1};
  const Tensor data = codes ? codes->codes : w.ConstantOf(weights, "weights");
  const Tensor arranged = TransposedData(data.Reshaped(kernel), order);
  int32_t filter = 0;
  int32_t bias = 0;
  if (on_codes) {
    const float input_scale = w.GridOf(node.inputs[0]).scales[0];
    bias = AddCodeBias(w, node.input(2), outputs, input_scale, codes->scales);
    filter = AddCodeWeights(w, weights->name, std::move(*codes), arranged, depthwise ? 3 : 0);
  } else {
    filter = AddFloatWeights(w, weights, codes, arranged, depthwise ? 3 : 0);
    bias = AddFloatBias(w, node.input(2), outputs);
  }
  const auto options =
      depthwise ? DepthwiseOptions(geometry, x.padding, tail.activation, outputs / groups)
                : ConvOptions(geometry, x.padding, tail.activation);
  const int32_t y = w.Add(depthwise ? Builtin::kDEPTHWISE_CONV_2D : Builtin::kCONV_2D,
                          {x.image.tensor, filter, bias}, tail.value->name, TensorType::kFloat32,
                          ImageShape(w, node.output()), options, on_codes ? *tail.grid : Grid{});
  FinishImage(w, tail, y, form);
}

}  // namespace requant::tflite

// ConvTranspose: TRANSPOSE_CONV, with a SLICE where its padding is neither SAME nor VALID.
#include <algorithm>
#include <cstring>

#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/write/ops/weights.h"
#include "tflite/write/ops/window.h"

namespace requant::tflite {

void WriteConvTranspose(Writer& w);

namespace {

/// Weights [inputs, outputs / groups, ...] of groups as those of one group, with zeros elsewhere.
Tensor WithoutGroups(const Tensor& weights, int64_t groups) {
  if (groups == 1) return weights;
  Shape shape = weights.shape();
  const int64_t inputs = shape[0];
  shape[1] *= groups;
  Tensor out(weights.dtype(), shape);
  const auto bytes = static_cast<size_t>(weights.count() / inputs) *
                     static_cast<size_t>(DTypeBits(weights.dtype()) / 8);
  const auto* from = static_cast<const uint8_t*>(weights.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t i = 0; i < inputs; ++i) {
    const int64_t group = i / (inputs / groups);
    const auto place = static_cast<size_t>(i * groups + group);
    std::memcpy(to + place * bytes, from + static_cast<size_t>(i) * bytes, bytes);
  }
  return out;
}

struct Crop {
  int64_t full, begin, output;
};

}  // namespace

void WriteConvTranspose(Writer& w) {
  const Node& node = w.node();
  const Value* weights = node.inputs[1];
  const Shape x_shape = w.ShapeOf(node.inputs[0]);
  const Shape y_shape = ImageShape(w, node.output());
  Shape kernel = w.ShapeOf(weights);
  const Window window = ReadWindow(node.attributes, {kernel.begin() + 2, kernel.end()});
  for (const int64_t dilation : window.dilations) {
    if (dilation != 1) w.Refuse("it is dilated", "use dilations of 1", weights);
  }
  const int64_t groups = node.attributes.Int("group", 1);
  const int64_t outputs = kernel[1] * groups;
  if (kernel.size() == 3) kernel.insert(kernel.begin() + 2, 1);
  const Tail tail = w.TailOf(false);
  auto codes = LayerCodes(w, weights, 1);
  // Scales of a group's outputs are not those of all outputs; zeros must be codes of 0.
  const bool one_type = w.code_type() == TensorType::kInt8;
  if (codes && groups > 1 && (codes->scales.size() > 1 || !one_type)) codes.reset();
  const bool on_codes = codes && w.OnCodes(tail, {node.inputs[0]});
  const Form form = on_codes ? Form::kCodes : Form::kNumbers;
  const Image x = ImageOf(w, node.inputs[0], form);

  // The full result has (in - 1) * stride + kernel pixels; ONNX's pads cut it at both ends.
  Crop crops[2];
  int64_t strides[2] = {1, 1};
  bool same = true;
  bool whole = true;
  for (size_t i = 0; i < 2; ++i) {
    const size_t missing = 2 - window.rank();
    const int64_t stride = i < missing ? 1 : window.strides[i - missing];
    const int64_t size = kernel[2 + i];
    const int64_t input = x.shape[1 + i];
    const int64_t output = y_shape[1 + i];
    const int64_t reach = (input - 1) * stride + size;
    int64_t begin = 0;
    if (i >= missing && window.auto_pad == AutoPad::kNotSet) {
      begin = window.pad_begin[i - missing];
    } else if (window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower) {
      const int64_t total = std::max<int64_t>(reach - output, 0);
      begin = window.auto_pad == AutoPad::kSameUpper ? total / 2 : total - total / 2;
    }
    strides[i] = stride;
    const int64_t full = std::max(reach, begin + output);
    if (full - reach >= stride) {
      w.Refuse(RQ_LATE_TEXT("its output_padding reaches beyond a stride"),
               RQ_LATE_TEXT("use a smaller output_padding"));
    }
    crops[i] = {full, begin, output};
    whole = whole && full == output && begin == 0;
    const int64_t total = std::max<int64_t>(reach - output, 0);
    same = same && (output + stride - 1) / stride == input && begin == total / 2;
  }
  const bool cut = !whole && !same;

  const Tensor data = codes ? codes->codes : w.ConstantOf(weights, "weights");
  const Tensor arranged =
      TransposedData(WithoutGroups(data.Reshaped(kernel), groups), {1, 2, 3, 0});
  int32_t filter = 0;
  int32_t bias = 0;
  Grid grid;
  if (on_codes) {
    grid = *tail.grid;
    const float input_scale = w.GridOf(node.inputs[0]).scales[0];
    bias = AddCodeBias(w, node.input(2), outputs, input_scale, codes->scales);
    filter = AddCodeWeights(w, weights->name, std::move(*codes), arranged, 0);
  } else {
    filter = AddFloatWeights(w, weights, codes, arranged, 0);
    bias = AddFloatBias(w, node.input(2), outputs);
  }
  const Shape shape = cut ? Shape{y_shape[0], crops[0].full, crops[1].full, y_shape[3]} : y_shape;
  using Field = field::TransposeConvOptions;
  const Padding padding = same ? Padding::kSame : Padding::kValid;
  int32_t y =
      w.Add(Builtin::kTRANSPOSE_CONV, {w.AddInts(shape), filter, x.tensor, bias}, tail.value->name,
            TensorType::kFloat32, shape,
            {ByteOption(Field::kPadding, static_cast<int32_t>(padding)),
             IntOption(Field::kStrideW, strides[1]), IntOption(Field::kStrideH, strides[0])},
            grid);
  if (cut) {
    const int32_t begin = w.AddInts({0, crops[0].begin, crops[1].begin, 0});
    const int32_t size = w.AddInts(y_shape);
    y = w.Add(Builtin::kSLICE, {y, begin, size}, tail.value->name, TensorType::kFloat32, y_shape,
              {}, grid);
  }
  FinishImage(w, tail, y, form);
}

}  // namespace requant::tflite

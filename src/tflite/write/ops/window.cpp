#include "tflite/write/ops/window.h"

#include <algorithm>
#include <limits>

#include "base/str_cat.h"

namespace requant::tflite {

Image ImageOf(Writer& w, const Value* value, Form form) {
  const int64_t rank = w.RankOf(value);
  if (rank != 3 && rank != 4) {
    w.Refuse(StrCat("it has ", rank - 2, " spatial dimensions"), "use one or two", value);
  }
  const int32_t index = w.Need(value, ChannelsLast(rank), form);
  const Shape shape = ImageShape(w, value);
  return {w.Reshaped(index, shape, StrCat(value->name, "_image")), shape};
}

Shape ImageShape(const Writer& w, const Value* value) {
  Shape shape = Ordered(w.ShapeOf(value), ChannelsLast(w.RankOf(value)));
  if (shape.size() == 3) shape.insert(shape.begin() + 1, 1);
  return shape;
}

void FinishImage(Writer& w, const Tail& tail, int32_t index, Form form) {
  const int64_t rank = w.RankOf(tail.value);
  const Order order = ChannelsLast(rank);
  const int32_t made =
      w.Reshaped(index, Ordered(w.ShapeOf(tail.value), order), StrCat(tail.value->name, "_line"));
  w.Finish(tail, made, order, form);
}

bool IsSame(const Geometry& g) {
  for (const size_t axis : {1, 2}) {
    const int64_t extent = (g.kernel[axis] - 1) * g.dilation[axis] + 1;
    const int64_t windows = (g.input[axis] + g.stride[axis] - 1) / g.stride[axis];
    const int64_t total =
        std::max<int64_t>((windows - 1) * g.stride[axis] + extent - g.input[axis], 0);
    if (g.output[axis] != windows || g.pad_begin[axis] != total / 2) return false;
  }
  return true;
}

Image PadImage(Writer& w, const Image& image, int64_t top, int64_t left, int64_t bottom,
               int64_t right, bool least) {
  const NetTensor from = w.tensor(image.tensor);
  Shape shape = image.shape;
  shape[1] += top + bottom;
  shape[2] += left + right;
  const Tensor pads =
      Tensor::FromVector<int32_t>({0, 0, static_cast<int32_t>(top), static_cast<int32_t>(bottom),
                                   static_cast<int32_t>(left), static_cast<int32_t>(right), 0, 0},
                                  {4, 2});
  std::vector<int32_t> inputs = {image.tensor, w.AddConstant("pads", pads)};
  if (least) {
    Tensor value;
    if (from.type == TensorType::kInt8) value = Tensor::Vector<int8_t>({-128});
    if (from.type == TensorType::kUint8) value = Tensor::Vector<uint8_t>({0});
    if (value.empty()) value = Tensor::Vector<float>({std::numeric_limits<float>::lowest()});
    inputs.push_back(w.AddConstant("least", value, from.grid));
  }
  w.NotePad();
  const int32_t padded = w.Add(least ? Builtin::kPADV2 : Builtin::kPAD, inputs,
                               StrCat(from.name, "_padded"), from.type, shape, {}, from.grid);
  return {padded, shape};
}

PaddedImage Padded(Writer& w, const Image& image, const Geometry& g, bool least) {
  int64_t ends[3] = {0, 0, 0};
  bool none = true;
  for (const size_t axis : {1, 2}) {
    // The last window may end beyond the image (ceil_mode), or before its end.
    const int64_t extent = (g.kernel[axis] - 1) * g.dilation[axis] + 1;
    const int64_t reach = (g.output[axis] - 1) * g.stride[axis] + extent;
    ends[axis] = std::max<int64_t>(reach - g.pad_begin[axis] - g.input[axis], 0);
    none = none && g.pad_begin[axis] == 0 && ends[axis] == 0;
  }
  if (none) return {image, Padding::kValid};
  if (IsSame(g)) return {image, Padding::kSame};
  return {PadImage(w, image, g.pad_begin[1], g.pad_begin[2], ends[1], ends[2], least),
          Padding::kValid};
}

}  // namespace requant::tflite

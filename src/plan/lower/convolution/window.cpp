#include "plan/lower/convolution/window.h"

#include <limits>

#include "base/str_cat.h"
#include "ops/convolution/convolve.h"

namespace requant {

std::string TuningOf(const char* family, const ConvGeometry& g, const std::string& more) {
  return StrCat(family, " ", g.batch, "x", g.in_h, "x", g.in_w, "x", g.in_c, " to ", g.out_h, "x",
                g.out_w, "x", g.out_c, ", window ", g.kernel_h, "x", g.kernel_w, " stride ",
                g.stride_h, "x", g.stride_w, " dilation ", g.dilation_h, "x", g.dilation_w,
                " groups ", g.groups, more);
}

bool FitsInt32(const ConvGeometry& g) {
  constexpr double kLimit = std::numeric_limits<int32_t>::max();
  const double in = static_cast<double>(g.batch) * g.in_h * g.in_w * g.input_stride;
  const double out = static_cast<double>(g.batch) * g.out_h * g.out_w * g.output_stride;
  const double weights = static_cast<double>(g.kernel_h) * g.kernel_w * g.in_c / g.groups * g.out_c;
  return in * 4 < kLimit && out * 4 < kLimit && weights * 4 < kLimit;
}

bool SetOutputStride(ConvGeometry& geometry, size_t elements) {
  if (elements > static_cast<size_t>(std::numeric_limits<int32_t>::max())) return false;
  ConvGeometry wide = geometry;
  wide.output_stride = static_cast<int32_t>(elements);
  if (!FitsInt32(wide)) return false;
  geometry = wide;
  return true;
}

std::optional<ConvGeometry> GeometryOf(const Node& node, const Shape& input, const Shape& output,
                                       std::vector<int64_t> kernel) {
  // A window over nothing but padding has a result, which the reference computes.
  const bool empty = NumElements(input) == 0 || NumElements(output) == 0;
  if ((input.size() != 3 && input.size() != 4) || empty) return std::nullopt;
  const Window window = ReadWindow(node.attributes, std::move(kernel));
  const size_t last = window.rank() - 1;
  constexpr int64_t kMax = std::numeric_limits<int32_t>::max() / 8;
  for (const Shape& shape : {input, output}) {
    for (const int64_t dim : shape) {
      if (dim > kMax) return std::nullopt;
    }
  }
  const ImageDims from = ImageOf(input);
  const ImageDims to = ImageOf(output);
  for (size_t axis = 0; axis <= last; ++axis) {
    const int64_t size = axis == last ? from.width : from.height;
    const int64_t pad = PlaceWindow(window, axis, size).pad_begin;
    if (window.strides[axis] > kMax || window.dilations[axis] > kMax ||
        window.kernel[axis] > kMax / window.dilations[axis] || pad > kMax || pad < -kMax) {
      return std::nullopt;
    }
  }
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  ConvGeometry g;
  g.batch = narrow(from.batch);
  g.in_h = narrow(from.height);
  g.in_w = narrow(from.width);
  g.in_c = g.input_stride = narrow(from.channels);
  g.out_h = narrow(to.height);
  g.out_w = narrow(to.width);
  g.out_c = g.output_stride = narrow(to.channels);
  g.kernel_w = narrow(window.kernel[last]);
  g.stride_w = narrow(window.strides[last]);
  g.dilation_w = narrow(window.dilations[last]);
  g.pad_left = narrow(PlaceWindow(window, last, from.width).pad_begin);
  if (input.size() == 4) {
    g.kernel_h = narrow(window.kernel[0]);
    g.stride_h = narrow(window.strides[0]);
    g.dilation_h = narrow(window.dilations[0]);
    g.pad_top = narrow(PlaceWindow(window, 0, from.height).pad_begin);
  }
  g.groups = narrow(node.attributes.Int("group", 1));
  if (!FitsInt32(g)) return std::nullopt;
  return g;
}

std::optional<ConvGeometry> TransposedGeometryOf(const Node& node, const Shape& in,
                                                 const Shape& out, const Shape& weights) {
  if ((in.size() != 3 && in.size() != 4) || NumElements(out) == 0) return std::nullopt;
  const Geometry source = TransposedGeometry(node.attributes, in, weights);
  constexpr int64_t kMax = 1 << 28;
  for (const Shape& shape : {in, out, weights}) {
    for (const int64_t dim : shape) {
      if (dim > kMax) return std::nullopt;
    }
  }
  for (size_t axis = 1; axis < 3; ++axis) {
    if (source.stride[axis] > kMax || source.dilation[axis] > kMax ||
        source.pad_begin[axis] > kMax || source.pad_begin[axis] < -kMax ||
        source.kernel[axis] > kMax / source.dilation[axis]) {
      return std::nullopt;
    }
  }
  ConvGeometry g;
  const auto narrow = [](int64_t value) { return static_cast<int32_t>(value); };
  g.batch = narrow(in[0]);
  g.in_h = narrow(source.input[1]);
  g.in_w = narrow(source.input[2]);
  g.in_c = g.input_stride = narrow(in[1]);
  g.out_h = narrow(source.output[1]);
  g.out_w = narrow(source.output[2]);
  g.out_c = g.output_stride = narrow(out[1]);
  g.kernel_h = narrow(source.kernel[1]);
  g.kernel_w = narrow(source.kernel[2]);
  g.stride_h = narrow(source.stride[1]);
  g.stride_w = narrow(source.stride[2]);
  g.dilation_h = narrow(source.dilation[1]);
  g.dilation_w = narrow(source.dilation[2]);
  g.pad_top = narrow(source.pad_begin[1]);
  g.pad_left = narrow(source.pad_begin[2]);
  g.groups = narrow(node.attributes.Int("group", 1));
  return g;
}

ConvGeometry MatMulGeometry(int64_t rows, int64_t k, int64_t n) {
  ConvGeometry g;
  g.in_w = g.out_w = static_cast<int32_t>(rows);
  g.in_c = g.input_stride = static_cast<int32_t>(k);
  g.out_c = g.output_stride = static_cast<int32_t>(n);
  return g;
}

std::optional<ConvGeometry> GlobalGeometry(const Shape& input) {
  if (input.size() < 3 || input.size() > 5 || NumElements(input) == 0 ||
      NumElements(input) > (int64_t{1} << 28)) {
    return std::nullopt;
  }
  const ImageDims dims = ImageOf(input);
  ConvGeometry g;
  g.batch = static_cast<int32_t>(dims.batch);
  g.in_h = g.kernel_h = static_cast<int32_t>(dims.height);
  g.in_w = g.kernel_w = static_cast<int32_t>(dims.width);
  g.in_c = g.out_c = g.input_stride = g.output_stride = static_cast<int32_t>(dims.channels);
  return g;
}

}  // namespace requant

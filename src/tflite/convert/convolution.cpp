// CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, CONV_3D and CONV_3D_TRANSPOSE.
#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked_math.h"
#include "base/late_text.h"
#include "base/str_cat.h"
#include "tflite/convert/dynamic.h"
#include "tflite/convert/weights.h"
#include "tflite/convert/window.h"
#include "tflite/operators.h"

namespace requant::tflite {
namespace {

int64_t KnownDim(const Context& context, size_t slot, size_t axis) {
  const Dim& dim = ImageShape(context, slot)[axis];
  if (!dim.known()) {
    context.Refuse(StrCat(RQ_LATE_TEXT("has an input "), slot, RQ_LATE_TEXT(" of open size")),
                   RQ_LATE_TEXT("convert the model with fixed shapes"));
  }
  return dim.value;
}

template <typename Options>
Window ReadWindow(const Context& context, size_t weights) {
  const TableView& options = context.options();
  Window window;
  window.padding = static_cast<Padding>(options.Get<int8_t>(Options::kPadding, 0));
  window.stride[0] = options.Get<int32_t>(Options::kStrideH, 0);
  window.stride[1] = options.Get<int32_t>(Options::kStrideW, 0);
  window.kernel[0] = KnownDim(context, weights, 1);
  window.kernel[1] = KnownDim(context, weights, 2);
  return window;
}

template <typename Options>
void AddDilation(const Context& context, Window& window) {
  window.dilation[0] = context.options().Get<int32_t>(Options::kDilationH, 1);
  window.dilation[1] = context.options().Get<int32_t>(Options::kDilationW, 1);
}

void Convolve(Context& context, const Window& window, int64_t groups,
              const std::vector<int64_t>& perm, int8_t activation) {
  AttributeMap attributes = WindowAttributes(context, 0, window);
  attributes.Set("kernel_shape", std::vector<int64_t>{window.kernel[0], window.kernel[1]});
  if (groups != 1) attributes.Set("group", groups);
  // Weights of depthwise convolutions are small, and float kernels compute them at least as fast.
  if (perm[0] == 0 && IsDynamicLayer(context, 0, 1, 0)) {
    return context.DefineActivated(DynamicConv(context, perm, std::move(attributes), 2), activation,
                                   Order::kPlanar);
  }
  std::vector<Value*> inputs = {context.Reals(0, Order::kPlanar), Weights(context, 1, perm)};
  if (context.has(2)) inputs.push_back(Bias(context, 2, 0, 1));
  Value* result = context.Add("Conv", std::move(inputs), std::move(attributes));
  context.DefineActivated(result, activation, Order::kPlanar);
}

/// ConvTranspose with an output of `height` x `width`, from input `image` and weights [out, kernel
/// height, kernel width, in].
void Deconvolve(Context& context, const Window& window, size_t image, size_t bias, int64_t height,
                int64_t width, int8_t activation) {
  const int64_t wanted[] = {height, width};
  std::vector<int64_t> pads(4);
  std::vector<int64_t> more(2);
  for (size_t i = 0; i < 2; ++i) {
    if (window.stride[i] < 1 || window.kernel[i] < 1 || wanted[i] < 1) {
      context.Invalid(RQ_LATE_TEXT("has a window that is not positive"));
    }
    const int64_t size = KnownDim(context, image, i + 1);
    const int64_t full = CheckedAdd64(CheckedMul64(size - 1, window.stride[i]), window.kernel[i]);
    const int64_t total = full - wanted[i];
    // Elements of the output beyond the last window keep the bias.
    more[i] = std::max<int64_t>(-total, 0);
    if (more[i] >= window.stride[i] || total >= full) {
      context.Invalid(RQ_LATE_TEXT("has an output that its windows do not fill"));
    }
    pads[i] = std::max<int64_t>(total, 0) / 2;
    pads[i + 2] = std::max<int64_t>(total, 0) - pads[i];
  }
  AttributeMap attributes;
  attributes.Set("strides", std::vector<int64_t>{window.stride[0], window.stride[1]});
  attributes.Set("kernel_shape", std::vector<int64_t>{window.kernel[0], window.kernel[1]});
  attributes.Set("pads", std::move(pads));
  if (more[0] != 0 || more[1] != 0) attributes.Set("output_padding", std::move(more));
  std::vector<Value*> inputs = {context.Reals(image, Order::kPlanar),
                                Weights(context, 1, {3, 0, 1, 2})};
  if (context.has(bias)) inputs.push_back(Bias(context, bias, image, 1));
  Value* result = context.Add("ConvTranspose", std::move(inputs), std::move(attributes));
  context.DefineActivated(result, activation, Order::kPlanar);
}

}  // namespace

void ConvertConv(Context& context, const char*) {
  using Options = field::Conv2DOptions;
  Window window = ReadWindow<Options>(context, 1);
  AddDilation<Options>(context, window);
  const Dim& channels = ImageShape(context, 0)[3];
  const int64_t per_group = KnownDim(context, 1, 3);
  int64_t groups = 1;
  if (channels.known()) {
    if (per_group < 1 || channels.value % per_group != 0) {
      context.Invalid(StrCat(RQ_LATE_TEXT("has weights of "), per_group,
                             RQ_LATE_TEXT(" channels for an input of "), channels.value));
    }
    groups = std::max<int64_t>(channels.value / per_group, 1);
  }
  Convolve(context, window, groups, {0, 3, 1, 2},
           context.options().Get<int8_t>(Options::kActivation, 0));
}

void ConvertDepthwiseConv(Context& context, const char*) {
  using Options = field::DepthwiseConv2DOptions;
  Window window = ReadWindow<Options>(context, 1);
  AddDilation<Options>(context, window);
  const int64_t channels = KnownDim(context, 0, 3);
  const int64_t outputs = KnownDim(context, 1, 3);
  if (KnownDim(context, 1, 0) != 1 || channels < 1 || outputs % channels != 0) {
    context.Invalid(StrCat(RQ_LATE_TEXT("has weights of "), outputs,
                           RQ_LATE_TEXT(" channels for an input of "), channels));
  }
  Convolve(context, window, channels, {3, 0, 1, 2},
           context.options().Get<int8_t>(Options::kActivation, 0));
}

void ConvertTransposeConv(Context& context, const char*) {
  using Options = field::TransposeConvOptions;
  const Window window = ReadWindow<Options>(context, 1);
  const std::vector<int64_t> shape = context.ints(0);
  if (shape.size() != 4) context.Invalid(RQ_LATE_TEXT("has an output of no four dimensions"));
  Deconvolve(context, window, 2, 3, shape[1], shape[2],
             context.options().Get<int8_t>(Options::kActivation, 0));
}

/// MediaPipe's own operator. Its options are the bytes of a TfLiteTransposeConvParams
/// (tensorflow/lite/core/c/builtin_op_data.h): padding, stride along width, stride along height.
void ConvertTransposeConvBias(Context& context, const char*) {
  int32_t options[3] = {};
  const std::span<const uint8_t> bytes = context.op().custom_options;
  if (bytes.size() < sizeof(options)) context.Invalid(RQ_LATE_TEXT("lacks its options"));
  std::memcpy(options, bytes.data(), sizeof(options));
  Window window;
  window.stride[0] = options[2];
  window.stride[1] = options[1];
  window.kernel[0] = KnownDim(context, 1, 1);
  window.kernel[1] = KnownDim(context, 1, 2);
  const SymbolicShape& output = context.output().shape;
  if (output.size() != 4 || !output[1].known() || !output[2].known()) {
    context.Refuse(RQ_LATE_TEXT("has an output of open size"),
                   RQ_LATE_TEXT("convert the model with fixed shapes"));
  }
  Deconvolve(context, window, 0, 2, output[1].value, output[2].value, 0);
}

namespace {

constexpr size_t kSpatial = 3;

struct Window3 {
  Padding padding = Padding::kValid;
  int64_t kernel[kSpatial], stride[kSpatial], dilation[kSpatial];  // depth, height, width
};

Window3 ReadWindow3(const Context& context) {
  using Options = field::Conv3DOptions;
  const TableView& options = context.options();
  const auto number = [&options](Options which, int32_t fallback) {
    return int64_t{options.Get<int32_t>(which, fallback)};
  };
  Window3 window{
      static_cast<Padding>(options.Get<int8_t>(Options::kPadding, 0)),
      {},
      {number(Options::kStrideD, 0), number(Options::kStrideH, 0), number(Options::kStrideW, 0)},
      {number(Options::kDilationD, 1), number(Options::kDilationH, 1),
       number(Options::kDilationW, 1)}};
  const SymbolicShape& weights = context.input(1).shape;
  if (weights.size() != 5) context.Invalid(RQ_LATE_TEXT("has weights of no five dimensions"));
  for (size_t i = 0; i < kSpatial; ++i) {
    window.kernel[i] = weights[i].known() ? weights[i].value : 0;
    if (window.kernel[i] < 1 || window.stride[i] < 1 || window.dilation[i] < 1)
      context.Invalid(RQ_LATE_TEXT("has a window that is not positive"));
  }
  if (window.padding != Padding::kValid && window.padding != Padding::kSame)
    context.Invalid(RQ_LATE_TEXT("has an unknown padding"));
  return window;
}

const SymbolicShape& VolumeShape(const Context& context, size_t slot) {
  const SymbolicShape& shape = context.input(slot).shape;
  if (shape.size() != 5) {
    context.Invalid(
        StrCat(RQ_LATE_TEXT("has an input "), slot, RQ_LATE_TEXT(" of no five dimensions")));
  }
  return shape;
}

int64_t Extent(const Window3& window, size_t i) {
  return CheckedAdd64(CheckedMul64(window.kernel[i] - 1, window.dilation[i]), 1);
}

AttributeMap Attributes(const Window3& window) {
  AttributeMap attributes;
  const auto list = [](const int64_t(&numbers)[kSpatial]) {
    return std::vector<int64_t>(numbers, numbers + kSpatial);
  };
  attributes.Set("strides", list(window.stride));
  attributes.Set("dilations", list(window.dilation));
  attributes.Set("kernel_shape", list(window.kernel));
  return attributes;
}

/// The size of spatial dimension `i`.
int64_t KnownSize(const Context& context, const SymbolicShape& shape, size_t i) {
  if (shape[i + 1].known()) return shape[i + 1].value;
  context.Refuse(RQ_LATE_TEXT("has an input of open size"),
                 RQ_LATE_TEXT("convert the model with fixed shapes"));
}

/// Defines the output of `op` on the volume in slot `data`; the bias is in slot 2 or, for the
/// transposed form, 3.
void DefineVolume(Context& context, const char* op, size_t data, AttributeMap attributes) {
  const size_t bias = data == 0 ? 2 : 3;
  std::vector<Value*> inputs = {context.Reals(data, Order::kPlanar),
                                Weights(context, 1, {4, 3, 0, 1, 2})};
  if (context.has(bias)) inputs.push_back(Bias(context, bias, data, 1));
  Value* result = context.Add(op, std::move(inputs), std::move(attributes));
  context.DefineActivated(
      result, context.options().Get<int8_t>(field::Conv3DOptions::kActivation, 0), Order::kPlanar);
}

}  // namespace

void ConvertConv3D(Context& context, const char*) {
  const Window3 window = ReadWindow3(context);
  const SymbolicShape& shape = VolumeShape(context, 0);
  AttributeMap attributes = Attributes(window);
  if (window.padding == Padding::kSame) {
    std::vector<int64_t> pads(2 * kSpatial);
    for (size_t i = 0; i < kSpatial; ++i) {
      const int64_t size = KnownSize(context, shape, i);
      const int64_t outputs = size / window.stride[i] + (size % window.stride[i] != 0);
      const int64_t covered =
          CheckedAdd64(CheckedMul64(outputs - 1, window.stride[i]), Extent(window, i));
      const int64_t total = std::max<int64_t>(covered - size, 0);
      pads[i] = total / 2;
      pads[i + kSpatial] = total - total / 2;
    }
    attributes.Set("pads", std::move(pads));
  }
  DefineVolume(context, "Conv", 0, std::move(attributes));
}

void ConvertConv3DTranspose(Context& context, const char*) {
  const Window3 window = ReadWindow3(context);
  const SymbolicShape& shape = VolumeShape(context, 2);
  const std::vector<int64_t> wanted = context.ints(0);
  if (wanted.size() != 5) context.Invalid(RQ_LATE_TEXT("has an output of no five dimensions"));
  std::vector<int64_t> pads(2 * kSpatial), more(kSpatial);
  for (size_t i = 0; i < kSpatial; ++i) {
    const int64_t steps = KnownSize(context, shape, i) - 1;
    const int64_t full = CheckedAdd64(CheckedMul64(steps, window.stride[i]), Extent(window, i));
    const int64_t total = CheckedAdd64(full, -std::max<int64_t>(wanted[i + 1], 0));
    more[i] = std::max<int64_t>(-total, 0);
    if (wanted[i + 1] < 1 || more[i] >= window.stride[i] || total >= full)
      context.Invalid(RQ_LATE_TEXT("has an output that its windows do not fill"));
    pads[i] = std::max<int64_t>(total, 0) / 2;
    pads[i + kSpatial] = std::max<int64_t>(total, 0) - pads[i];
  }
  AttributeMap attributes = Attributes(window);
  attributes.Set("pads", std::move(pads));
  if (std::any_of(more.begin(), more.end(), [](int64_t size) { return size != 0; }))
    attributes.Set("output_padding", std::move(more));
  DefineVolume(context, "ConvTranspose", 2, std::move(attributes));
}

}  // namespace requant::tflite

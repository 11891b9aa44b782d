#include "tflite/convert/window.h"

#include <algorithm>

#include "base/checked_math.h"
#include "base/late_text.h"
#include "base/str_cat.h"

namespace requant::tflite {

const SymbolicShape& ImageShape(const Context& context, size_t slot) {
  const SymbolicShape& shape = context.input(slot).shape;
  if (shape.size() != 4)
    context.Invalid(
        StrCat(RQ_LATE_TEXT("has an input "), slot, RQ_LATE_TEXT(" of no four dimensions")));
  return shape;
}

AttributeMap WindowAttributes(const Context& context, size_t slot, const Window& window) {
  const SymbolicShape& shape = ImageShape(context, slot);
  for (size_t i = 0; i < 2; ++i) {
    if (window.kernel[i] < 1 || window.stride[i] < 1 || window.dilation[i] < 1) {
      context.Invalid(RQ_LATE_TEXT("has a window that is not positive"));
    }
  }
  AttributeMap attributes;
  attributes.Set("strides", std::vector<int64_t>{window.stride[0], window.stride[1]});
  if (window.dilation[0] != 1 || window.dilation[1] != 1) {
    attributes.Set("dilations", std::vector<int64_t>{window.dilation[0], window.dilation[1]});
  }
  if (window.padding == Padding::kValid) return attributes;
  if (window.padding != Padding::kSame) context.Invalid(RQ_LATE_TEXT("has an unknown padding"));
  if (!shape[1].known() || !shape[2].known()) {
    attributes.Set("auto_pad", std::string("SAME_UPPER"));
    return attributes;
  }
  std::vector<int64_t> pads(4);
  for (size_t i = 0; i < 2; ++i) {
    const int64_t size = shape[i + 1].value;
    const int64_t stride = window.stride[i];
    const int64_t extent = CheckedAdd64(CheckedMul64(window.kernel[i] - 1, window.dilation[i]), 1);
    const int64_t outputs = size / stride + (size % stride != 0);
    const int64_t total =
        std::max<int64_t>(CheckedAdd64(CheckedMul64(outputs - 1, stride), extent - size), 0);
    pads[i] = total / 2;
    pads[i + 2] = total - total / 2;
  }
  attributes.Set("pads", std::move(pads));
  return attributes;
}

}  // namespace requant::tflite

// Windows of convolutions and pools, whose padding TFLite gives as SAME or VALID.
#pragma once

#include "tflite/converter.h"

namespace requant::tflite {

/// A window along height and width.
struct Window {
  Padding padding = Padding::kValid;
  int64_t kernel[2] = {1, 1};
  int64_t stride[2] = {1, 1};
  int64_t dilation[2] = {1, 1};
};

/// Attributes of Conv and of pools for the image in slot `slot`: strides, dilations unless they are
/// 1, and explicit pads (tensorflow/lite/kernels/padding.h), or auto_pad for an open size. Throws
/// kInvalidModel for a window that is not positive.
AttributeMap WindowAttributes(const Context& context, size_t slot, const Window& window);

/// The shape of a tensor of rank 4, images or weights. Throws kInvalidModel for another rank.
const SymbolicShape& ImageShape(const Context& context, size_t slot);

}  // namespace requant::tflite

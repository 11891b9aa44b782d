#pragma once

#include "tensor/tensor.h"

namespace requant {

/// ONNX Cast between any two dtypes with a size: floats to integers truncate towards zero and
/// saturate (NaN gives 0), integers to integers wrap, anything but zero is true, floats of 16 and 8
/// bits round once, half to even; `saturate` is FloatToFloat8's. For strings see TextsOfNumbers and
/// NumbersOfTexts.
Tensor CastTensor(const Tensor& input, DType to, bool saturate = true);

}  // namespace requant

#pragma once

#include "tensor/tensor.h"

namespace requant {

/// ONNX Cast between any two dtypes with a size: floats to integers truncate towards zero and
/// saturate (NaN gives 0), integers to integers wrap, anything but zero is true, float16 and
/// bfloat16 round half to even. Throws kUnsupported for strings.
Tensor CastTensor(const Tensor& input, DType to);

}  // namespace requant

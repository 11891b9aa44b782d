// The types of tensors in TFLite files and in graphs.
#pragma once

#include <optional>

#include "tensor/dtype.h"
#include "tflite/schema.h"

namespace requant::tflite {

/// The type of a graph's tensor; kUndefined for types that graphs do not have (strings, complex
/// numbers).
DType DTypeOf(TensorType type);
/// The type of a file's tensor; nothing for types that files do not have.
std::optional<TensorType> TensorTypeOf(DType dtype);

}  // namespace requant::tflite

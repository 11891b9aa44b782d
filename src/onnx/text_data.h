// The strings of a TensorProto.
#pragma once

#include <string>

#include "base/late_function.h"
#include "onnx/message.h"
#include "tensor/text.h"

namespace requant {

/// Reads string_data. Throws kInvalidModel unless it fits the shape.
Tensor ReadTexts(Message tensor, const Shape& shape);
/// Appends string_data to the bytes of a message.
void WriteTexts(const Tensor& tensor, std::string& message);

// Among the extended operators.
extern const LateFunction<decltype(ReadTexts)> kReadTexts;
extern const LateFunction<decltype(WriteTexts)> kWriteTexts;

}  // namespace requant

#pragma once

#include <map>
#include <string>

#include "onnx/message.h"
#include "tensor/shared_bytes.h"
#include "tensor/tensor.h"

namespace requant {

/// Contents of external data files by the `location` that the model names. The reader opens no
/// files, so a location cannot escape any folder.
using ExternalFiles = std::map<std::string, SharedBytes>;

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

/// Reads one TensorProto out of `file`. Throws kInvalidModel for dims that do not fit the data, and
/// kUnsupported for complex numbers and unknown types, naming `what` or the tensor.
NamedTensor ReadTensorMessage(Message message, const SharedBytes& file,
                              const ExternalFiles& external, const std::string& what);

/// The dtype of a TensorProto.DataType number. Throws kUnsupported naming the value.
DType DTypeFromNumber(int64_t number, const std::string& value_name);

}  // namespace requant

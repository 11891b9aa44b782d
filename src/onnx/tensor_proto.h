#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onnx/message.h"
#include "tensor/shared_bytes.h"
#include "tensor/tensor.h"

namespace requant {

/// Bytes of an external data file from `offset` on.
struct ExternalPiece {
  std::string file;  // the `location` that the model names
  uint64_t offset = 0;
  SharedBytes data;
};

/// Pieces of external data files; each tensor lies within one of them (NeedsOf). The reader opens
/// no files, so a location cannot escape any folder.
using ExternalFiles = std::vector<ExternalPiece>;

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

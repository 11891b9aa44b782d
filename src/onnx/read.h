// Reads ONNX files into graphs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/tensor_proto.h"

namespace requant {

struct ReadOptions {
  ExternalFiles external;  // see NeedsOf
};

/// Parses a ModelProto. Constants stay views of the file's bytes where alignment allows, so the
/// owner lives as long as any tensor of the graph. Nodes come out sorted, declared types
/// (value_info) are kept, initializers that are also inputs become constants, and models of opset 1
/// to 6 are upgraded to opset 7. Calls of the model's own functions become the nodes of their
/// bodies, named `call/inner`, and sparse tensors become dense ones.
///
/// Throws kInvalidModel (damaged bytes, missing or doubled values, wrong sizes, a cycle, a
/// recursive function), kUnsupported (maps, opset < 1) or kInvalidArgument (an
/// external file that was not given), naming node and value.
Graph ReadOnnx(const SharedBytes& file, const ReadOptions& options = {});

/// The bytes of a tensor in an external file.
struct ExternalNeed {
  std::string file;  // the name that the model uses
  uint64_t offset = 0, size = 0;
};

struct FileNeeds {
  std::vector<ExternalNeed> external;  // in the order of the model; some may overlap
  const void* function;  // of the extended operators, without which it cannot be read; or nullptr
};
/// Tells a loader what to fetch before ReadOnnx. Throws kInvalidModel for damaged bytes.
FileNeeds NeedsOf(std::span<const uint8_t> file);

/// Reads a file that holds one TensorProto, such as input_0.pb of ONNX's test data.
NamedTensor ReadTensorFile(const SharedBytes& file);

}  // namespace requant

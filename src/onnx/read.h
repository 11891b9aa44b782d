// ONNX file bytes -> Graph.
#pragma once

#include <string>
#include <vector>

#include "ir/graph.h"
#include "onnx/tensor_proto.h"

namespace requant {

struct ReadOptions {
  ExternalFiles external;  // see ExternalDataLocations
};

/// Parses a ModelProto. Constants stay views into the file's bytes where alignment allows, so the
/// owner lives as long as any tensor of the graph. The nodes come out sorted, the declared types
/// (value_info) are kept, initializers that are also inputs are constants, and a model of opset 6
/// is brought to opset 7.
///
/// Throws kInvalidModel (damaged bytes, missing or doubled values, wrong sizes, a cycle),
/// kUnsupported (control flow, functions, sequences, strings, sparse tensors, opset < 6) or
/// kInvalidArgument (an external file that was not given), naming node and value.
Graph ReadOnnx(const SharedBytes& file, const ReadOptions& options = {});

/// The external data files that a model names, sorted and without doubles, so that a loader can
/// fetch them before ReadOnnx. Throws kInvalidModel for damaged bytes.
std::vector<std::string> ExternalDataLocations(std::span<const uint8_t> file);

/// A file that holds one TensorProto, such as input_0.pb of ONNX's test data.
NamedTensor ReadTensorFile(const SharedBytes& file);

}  // namespace requant

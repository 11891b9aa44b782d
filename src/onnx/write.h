// Writes graphs as ONNX files.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

struct WriteOptions {
  std::string producer_name = "requant";
  std::string producer_version;
};

/// The graph as a ModelProto with raw tensor data, declared types (symbolic dimensions included),
/// all attributes and the graph's metadata. The IR version is the oldest that ONNX pairs with the
/// opset, so that runtimes of that time accept the file. Reading the file gives a graph that prints
/// the same. Throws kInvalidModel when the graph is not well formed.
std::vector<uint8_t> WriteOnnx(const Graph& graph, const WriteOptions& options = {});

/// A file of one TensorProto, such as input_0.pb of ONNX's test data.
std::vector<uint8_t> WriteTensorFile(const std::string& name, const Tensor& tensor);

/// The IR version that belongs to an ONNX opset (onnx/docs/Versioning.md, "Released Versions").
int IrVersionOfOpset(int opset);

}  // namespace requant

// Writes graphs as ONNX files.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

struct WriteOptions {
  std::string producer_name = "requant";
  std::string producer_version;
  /// Name of a second file, in which constants from 1 kB on lie (TensorProto.external_data); empty:
  /// all lie in the first one.
  std::string external_data;
};

/// A file as texts of its own and views of constants, so that large constants are never copied.
class FilePieces {
 public:
  void Add(std::string_view text);
  void AddView(std::span<const uint8_t> bytes);
  /// The text before all parts.
  void SetHead(std::string text);
  uint64_t size() const { return size_; }
  /// The parts, valid as long as nothing is added.
  std::vector<std::span<const uint8_t>> Parts() const;

 private:
  struct Part {
    const uint8_t* view;  // nullptr: the next bytes of the texts
    size_t size;
  };
  std::string head_, texts_;
  std::vector<Part> parts_;
  uint64_t size_ = 0;
};

struct OnnxPieces {
  FilePieces model;
  FilePieces data;  // empty without `external_data`
};

/// The graph as a ModelProto with raw tensor data, declared types (symbolic dimensions included),
/// all attributes and the graph's metadata. The IR version is the oldest that ONNX pairs with the
/// opset, so that runtimes of that time accept the file. Reading the file gives a graph that prints
/// the same. The pieces are valid as long as the graph. Throws kInvalidModel when the graph is not
/// well formed, and kUnsupported for a model of 2 GB, which is the end of protobuf.
OnnxPieces WriteOnnxPieces(const Graph& graph, const WriteOptions& options = {});

/// The bytes of the model of WriteOnnxPieces.
std::vector<uint8_t> WriteOnnx(const Graph& graph, const WriteOptions& options = {});

/// A file of one TensorProto, such as input_0.pb of ONNX's test data.
std::vector<uint8_t> WriteTensorFile(const std::string& name, const Tensor& tensor);

/// The IR version that belongs to an ONNX opset (onnx/docs/Versioning.md, "Released Versions").
int IrVersionOfOpset(int opset);

}  // namespace requant

// Writes .tflite files for tests with the builder of flatbuffers. Numbers of fields are those of
// src/tflite/schema.h.
#pragma once

#include <flatbuffers/flatbuffer_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tensor/shared_bytes.h"
#include "tflite/schema.h"

namespace requant::tflite {

struct TensorSpec {
  std::string name;
  TensorType type = TensorType::kFloat32;
  std::vector<int32_t> shape;
  std::vector<uint8_t> bytes = {};  // empty: not constant
  std::vector<float> scales = {};
  std::vector<int64_t> zeros = {};
  int32_t axis = 0;
  bool variable = false;
  /// Sparse rows: segments and indices of a matrix of type CSR.
  std::vector<int32_t> segments = {};
  std::vector<int32_t> indices = {};
};

/// A field of an options table.
struct OptionSpec {
  int slot;
  enum Kind { kByte, kInt, kFloat, kInts } kind;
  double number = 0;
  std::vector<int32_t> list = {};
};

struct NodeSpec {
  int32_t code;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
  std::vector<OptionSpec> options = {};
  std::string custom = {};
};

struct GraphSpec {
  std::vector<TensorSpec> tensors;
  std::vector<NodeSpec> nodes;
  std::vector<int32_t> inputs;
  std::vector<int32_t> outputs;
};

template <typename T>
std::vector<uint8_t> BytesOf(const std::vector<T>& values) {
  const auto* bytes = reinterpret_cast<const uint8_t*>(values.data());
  return {bytes, bytes + values.size() * sizeof(T)};
}

class FileBuilder {
 public:
  std::vector<uint8_t> Write(const std::vector<GraphSpec>& graphs, uint32_t version = 3) {
    std::vector<flatbuffers::Offset<void>> subgraphs;
    buffers_.emplace_back();
    for (const GraphSpec& graph : graphs) subgraphs.push_back(WriteGraph(graph));
    std::vector<flatbuffers::Offset<void>> codes;
    for (const NodeSpec& node : nodes_) {
      const auto custom = node.custom.empty() ? 0 : builder_.CreateString(node.custom).o;
      Start();
      builder_.AddElement<int8_t>(Slot(0), static_cast<int8_t>(std::min(node.code, 127)), 0);
      if (custom != 0) Add(1, custom);
      builder_.AddElement<int32_t>(Slot(3), node.code, 0);
      codes.push_back(End());
    }
    std::vector<flatbuffers::Offset<void>> buffers;
    for (const std::vector<uint8_t>& bytes : buffers_) {
      if (!bytes.empty()) builder_.ForceVectorAlignment(bytes.size(), 1, 16);
      const auto data = bytes.empty() ? 0 : builder_.CreateVector(bytes).o;
      Start();
      if (data != 0) Add(0, data);
      buffers.push_back(End());
    }
    const auto codes_at = builder_.CreateVector(codes).o;
    const auto graphs_at = builder_.CreateVector(subgraphs).o;
    const auto buffers_at = builder_.CreateVector(buffers).o;
    Start();
    builder_.AddElement<uint32_t>(Slot(0), version, 0);
    Add(1, codes_at);
    Add(2, graphs_at);
    Add(4, buffers_at);
    builder_.Finish(flatbuffers::Offset<flatbuffers::Table>(End().o), kIdentifier);
    return {builder_.GetBufferPointer(), builder_.GetBufferPointer() + builder_.GetSize()};
  }

 private:
  static flatbuffers::voffset_t Slot(int field) {
    return static_cast<flatbuffers::voffset_t>(4 + 2 * field);
  }
  void Start() {
    builder_.ForceDefaults(true);
    start_ = builder_.StartTable();
  }
  flatbuffers::Offset<void> End() { return {builder_.EndTable(start_)}; }
  void Add(int field, flatbuffers::uoffset_t target) {
    builder_.AddOffset(Slot(field), flatbuffers::Offset<void>(target));
  }

  flatbuffers::uoffset_t WriteSparsity(const TensorSpec& tensor) {
    const auto order = builder_.CreateVector(std::vector<int32_t>{0, 1}).o;
    const auto vector = [this](const std::vector<int32_t>& values) {
      const auto at = builder_.CreateVector(values).o;
      Start();
      Add(0, at);
      return End().o;
    };
    const auto segments = vector(tensor.segments);
    const auto indices = vector(tensor.indices);
    std::vector<flatbuffers::Offset<void>> levels;
    Start();
    builder_.AddElement<int8_t>(Slot(0), 0, 0);
    builder_.AddElement<int32_t>(Slot(1), tensor.shape[0], 0);
    levels.push_back(End());
    Start();
    builder_.AddElement<int8_t>(Slot(0), 1, 0);
    builder_.AddElement<uint8_t>(Slot(2), 1, 0);
    Add(3, segments);
    builder_.AddElement<uint8_t>(Slot(4), 1, 0);
    Add(5, indices);
    levels.push_back(End());
    const auto metadata = builder_.CreateVector(levels).o;
    Start();
    Add(0, order);
    Add(2, metadata);
    return End().o;
  }

  flatbuffers::Offset<void> WriteTensor(const TensorSpec& tensor) {
    const auto name = builder_.CreateString(tensor.name).o;
    const auto shape = builder_.CreateVector(tensor.shape).o;
    flatbuffers::uoffset_t quantization = 0;
    if (!tensor.scales.empty()) {
      const auto scales = builder_.CreateVector(tensor.scales).o;
      const auto zeros = builder_.CreateVector(tensor.zeros).o;
      Start();
      Add(2, scales);
      Add(3, zeros);
      builder_.AddElement<int32_t>(Slot(6), tensor.axis, 0);
      quantization = End().o;
    }
    const auto sparsity = tensor.segments.empty() ? 0 : WriteSparsity(tensor);
    uint32_t buffer = 0;
    if (!tensor.bytes.empty()) {
      buffer = static_cast<uint32_t>(buffers_.size());
      buffers_.push_back(tensor.bytes);
    }
    Start();
    Add(0, shape);
    builder_.AddElement<int8_t>(Slot(1), static_cast<int8_t>(tensor.type), 0);
    builder_.AddElement<uint32_t>(Slot(2), buffer, 0);
    Add(3, name);
    if (quantization != 0) Add(4, quantization);
    builder_.AddElement<uint8_t>(Slot(5), tensor.variable ? 1 : 0, 0);
    if (sparsity != 0) Add(6, sparsity);
    return End();
  }

  flatbuffers::Offset<void> WriteNode(const NodeSpec& node) {
    std::vector<flatbuffers::uoffset_t> lists;
    for (const OptionSpec& option : node.options) {
      lists.push_back(option.kind == OptionSpec::kInts ? builder_.CreateVector(option.list).o : 0);
    }
    Start();
    for (size_t i = 0; i < node.options.size(); ++i) {
      const OptionSpec& option = node.options[i];
      switch (option.kind) {
        case OptionSpec::kByte:
          builder_.AddElement<int8_t>(Slot(option.slot), static_cast<int8_t>(option.number), 0);
          break;
        case OptionSpec::kInt:
          builder_.AddElement<int32_t>(Slot(option.slot), static_cast<int32_t>(option.number), 0);
          break;
        case OptionSpec::kFloat:
          builder_.AddElement<float>(Slot(option.slot), static_cast<float>(option.number), 0);
          break;
        case OptionSpec::kInts:
          Add(option.slot, lists[i]);
          break;
      }
    }
    const auto options = End().o;
    const auto inputs = builder_.CreateVector(node.inputs).o;
    const auto outputs = builder_.CreateVector(node.outputs).o;
    Start();
    builder_.AddElement<uint32_t>(Slot(0), static_cast<uint32_t>(nodes_.size()), 0);
    Add(1, inputs);
    Add(2, outputs);
    Add(4, options);
    nodes_.push_back(node);
    return End();
  }

  flatbuffers::Offset<void> WriteGraph(const GraphSpec& graph) {
    std::vector<flatbuffers::Offset<void>> tensors;
    for (const TensorSpec& tensor : graph.tensors) tensors.push_back(WriteTensor(tensor));
    std::vector<flatbuffers::Offset<void>> nodes;
    for (const NodeSpec& node : graph.nodes) nodes.push_back(WriteNode(node));
    const auto tensors_at = builder_.CreateVector(tensors).o;
    const auto inputs = builder_.CreateVector(graph.inputs).o;
    const auto outputs = builder_.CreateVector(graph.outputs).o;
    const auto nodes_at = builder_.CreateVector(nodes).o;
    Start();
    Add(0, tensors_at);
    Add(1, inputs);
    Add(2, outputs);
    Add(3, nodes_at);
    return End();
  }

  flatbuffers::FlatBufferBuilder builder_;
  flatbuffers::uoffset_t start_ = 0;
  std::vector<std::vector<uint8_t>> buffers_;
  std::vector<NodeSpec> nodes_;
};

inline std::vector<uint8_t> WriteFile(const std::vector<GraphSpec>& graphs, uint32_t version = 3) {
  return FileBuilder().Write(graphs, version);
}

inline SharedBytes Shared(std::vector<uint8_t> bytes) {
  auto owner = std::make_shared<std::vector<uint8_t>>(std::move(bytes));
  return {owner, *owner};
}

}  // namespace requant::tflite

// Writes the messages of an ONNX graph.
#pragma once

#include <protozero/pbf_writer.hpp>
#include <string>
#include <string_view>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant {

/// Wraps protozero's writer for our tags.
class MessageWriter {
 public:
  explicit MessageWriter(std::string& out) : writer_(out) {}

  template <typename Tag>
  void Bytes(Tag tag, std::string_view bytes) {
    writer_.add_bytes(static_cast<uint32_t>(tag), bytes.data(), bytes.size());
  }
  template <typename Tag>
  void Int(Tag tag, int64_t value) {
    writer_.add_int64(static_cast<uint32_t>(tag), value);
  }
  template <typename Tag>
  void Float(Tag tag, float value) {
    writer_.add_float(static_cast<uint32_t>(tag), value);
  }

 private:
  protozero::pbf_writer writer_;
};

/// A StringStringEntryProto.
std::string EntryBytes(const std::string& key, const std::string& value);

/// A TensorProto without its data, and a whole one.
std::string TensorHead(const std::string& name, const Tensor& tensor);
std::string TensorBytes(const std::string& name, const Tensor& tensor);

/// The fields of a GraphProto before and behind its initializers.
std::string GraphHead(const Graph& graph);
std::string GraphTail(const Graph& graph);

/// The name of the initializer with the 16 bits of a constant (Tensor::half); GraphHead widens it.
std::string HalfName(const Graph& graph, const Value& value);

/// Calls `visit(name, tensor)` with each constant, as it is written.
template <typename Visit>
void ForEachInitializer(const Graph& graph, const Visit& visit) {
  for (const auto& value : graph.values()) {
    if (!value->is_constant()) continue;
    if (const Tensor* half = value->constant.half()) {
      visit(HalfName(graph, *value), half->Reshaped(value->constant.shape()));
    } else {
      visit(value->name, value->constant);
    }
  }
}

}  // namespace requant

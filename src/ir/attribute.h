#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "tensor/tensor.h"

namespace requant {

class Graph;
/// A body of If, Loop or Scan (see Graph::captured).
using Subgraph = std::shared_ptr<const Graph>;

/// The value of a node's attribute, in the kinds of AttributeProto (onnx/onnx.proto) that this
/// engine uses. Floats are float32 in the file and here.
using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>,
                               std::vector<float>, std::vector<std::string>, Tensor, Subgraph>;

/// A node's attributes in file order. A lookup throws kInvalidModel when the attribute is present
/// with another kind than asked for; whoever catches the error adds the node's name.
class AttributeMap {
 public:
  using Entry = std::pair<std::string, Attribute>;

  const Attribute* Find(std::string_view name) const;
  bool Has(std::string_view name) const { return Find(name) != nullptr; }
  void Set(std::string name, Attribute value);
  void Remove(std::string_view name);

  int64_t Int(std::string_view name, int64_t fallback) const;
  float Float(std::string_view name, float fallback) const;
  std::string String(std::string_view name, const std::string& fallback) const;
  std::vector<int64_t> Ints(std::string_view name, const std::vector<int64_t>& fallback = {}) const;
  std::vector<float> Floats(std::string_view name, const std::vector<float>& fallback = {}) const;
  /// The tensor attribute of that name, or nullptr when absent.
  const Tensor* TensorValue(std::string_view name) const;
  /// The graph attribute of that name, or nullptr when absent.
  const Graph* GraphValue(std::string_view name) const;

  const std::vector<Entry>& entries() const { return entries_; }

 private:
  std::vector<Entry> entries_;
};

/// Whether kinds and values are equal (tensors bit for bit; a subgraph equals only itself).
bool SameAttributes(const AttributeMap& a, const AttributeMap& b);

}  // namespace requant

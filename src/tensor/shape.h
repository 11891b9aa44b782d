#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"

namespace requant {

/// A concrete shape, whose dimensions are all >= 0.
using Shape = std::vector<int64_t>;

/// The number of elements. Throws kInvalidModel for a negative dimension or a product beyond 2^62,
/// and kOutOfMemory when the product or a dimension exceeds this machine's size_t.
int64_t NumElements(const Shape& shape);
/// The shape as text, such as "[1, 3, 32, 32]".
std::string ShapeToString(const Shape& shape);
/// The shape of numpy's and ONNX's multidirectional broadcasting. Throws kShapeMismatch.
Shape BroadcastShapes(const Shape& a, const Shape& b);

/// One dimension of a graph value: known (value >= 0), symbolic (value < 0, name set) or unknown
/// (value < 0, no name). Equal names mean equal sizes.
struct Dim {
  int64_t value = -1;
  std::string symbol;

  Dim() = default;
  Dim(int64_t known) : value(known) {}  // NOLINT(google-explicit-constructor): reads as a number
  explicit Dim(std::string name) : symbol(std::move(name)) {}
  bool known() const { return value >= 0; }
  bool operator==(const Dim& other) const {
    return known() ? value == other.value
                   : !other.known() && !symbol.empty() && symbol == other.symbol;
  }
};

using SymbolicShape = std::vector<Dim>;

/// The type of a value as known before running: dtype (maybe kUndefined) and shape (maybe of
/// unknown rank).
struct ValueType {
  DType dtype = DType::kUndefined;
  std::optional<SymbolicShape> shape;

  /// Whether the rank and every dimension are known.
  bool IsStatic() const;
  /// The concrete shape; call it only if IsStatic().
  Shape StaticShape() const;
};

SymbolicShape ToSymbolic(const Shape& shape);
/// The type as text, such as "float32[N, 3, ?]", or "float32[...]" for an unknown rank.
std::string TypeToString(const ValueType& type);

}  // namespace requant

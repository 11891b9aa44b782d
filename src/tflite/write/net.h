// A TFLite subgraph in memory, as it is written to a file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tensor/tensor.h"
#include "tflite/schema.h"

namespace requant::tflite {

/// The numbers of schema.fbs, BuiltinOperator. A k is before each name, since limits.h defines
/// ARG_MAX.
enum class Builtin : int32_t {
// NOLINTBEGIN(bugprone-macro-parentheses): a name in parentheses is no enumerator
#define OP(number, name, function, onnx) k##name = number,
#define LACK(number, name, remedy) k##name = number,
#include "tflite/operators.inc"
#undef OP
#undef LACK
  // NOLINTEND(bugprone-macro-parentheses)
};

/// The name of an operator, such as "CONV_2D".
const char* BuiltinName(Builtin op);

/// The quantization of a tensor: real = scale * (code - zero). No scales: it is not quantized.
struct Grid {
  TensorType type = TensorType::kFloat32;
  std::vector<float> scales;
  std::vector<int64_t> zeros;
  int32_t axis = 0;  ///< of the tensor's shape, where there are several scales

  bool operator==(const Grid&) const = default;
};

struct NetTensor {
  std::string name;
  TensorType type = TensorType::kFloat32;
  Shape shape;
  Grid grid;
  Tensor data;  ///< empty unless the tensor is a constant
};

/// A field of an operator's table of options.
struct Option {
  enum class Kind : uint8_t { kByte, kFlag, kInt, kReal, kInts };
  uint16_t slot;
  Kind kind;
  int32_t number = 0;
  float real = 0;
  std::vector<int32_t> list = {};
};

template <typename Field>
Option ByteOption(Field field, int32_t number) {
  return {static_cast<uint16_t>(field), Option::Kind::kByte, number};
}
template <typename Field>
Option FlagOption(Field field, bool flag) {
  return {static_cast<uint16_t>(field), Option::Kind::kFlag, flag ? 1 : 0};
}
template <typename Field>
Option IntOption(Field field, int64_t number) {
  return {static_cast<uint16_t>(field), Option::Kind::kInt, static_cast<int32_t>(number)};
}
template <typename Field>
Option RealOption(Field field, float real) {
  return {static_cast<uint16_t>(field), Option::Kind::kReal, 0, real};
}

struct NetOperator {
  Builtin op;
  std::vector<int32_t> inputs, outputs;  ///< indices of tensors; -1: left out
  std::vector<Option> options;
};

struct Net {
  std::vector<NetTensor> tensors;
  std::vector<NetOperator> operators;
  std::vector<int32_t> inputs, outputs;
};

/// The file with this one subgraph (schema.fbs, version 3). Throws kUnsupported beyond the 2 GB
/// that a flatbuffer may have.
std::vector<uint8_t> Serialize(const Net& net);

}  // namespace requant::tflite

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace requant {

/// Element types, numbered as TensorProto.DataType (onnx/onnx.proto), so that files need no
/// mapping.
enum class DType : uint8_t {
  kUndefined = 0,
  kFloat32 = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kString = 8,  // handles of 8 bytes (tensor/text.h)
  kBool = 9,    // one byte, 0 or 1
  kFloat16 = 10,
  kFloat64 = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
  kFloat8E4M3FN = 17,  // tensor/half.h
  kFloat8E4M3FNUZ = 18,
  kFloat8E5M2 = 19,
  kFloat8E5M2FNUZ = 20,
  kUint4 = 21,  // two per byte, the first in the low nibble
  kInt4 = 22,
  kUint2 = 25,  // four per byte
  kInt2 = 26,
};

/// Bits above those numbers: sequences of such tensors, and optional ones or optional sequences.
/// Their values are tensors of bytes (ops/container/container.h), and pass for uint8 outside.
inline constexpr uint8_t kSequenceBit = 128;
inline constexpr uint8_t kOptionalBit = 64;

/// Bits of one element; 0 for kUndefined.
int DTypeBits(DType dtype);
/// Bytes of `count` elements, rounded up: 4-bit types take half a byte each, 2-bit types a quarter.
/// Throws on overflow.
size_t DTypeBytes(DType dtype, size_t count);
/// The type's name in onnxruntime-web's Tensor: "float32", "uint8", ...
const char* DTypeName(DType dtype);
/// The type of that name; kUndefined for an unknown name.
DType DTypeFromName(std::string_view name);
bool IsFloat(DType dtype);
/// Whether it is float16 or bfloat16.
bool IsHalf(DType dtype);
/// Whether it is one of the four floats of 8 bits.
bool IsFloat8(DType dtype);
/// Whether it is a signed or unsigned integer of any width; bool is not.
bool IsInteger(DType dtype);
/// Whether it is int8 or uint8.
bool IsByte(DType dtype);

template <typename T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::kFloat32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::kFloat64;
};
template <>
struct DTypeOf<int8_t> {
  static constexpr DType value = DType::kInt8;
};
template <>
struct DTypeOf<uint8_t> {
  static constexpr DType value = DType::kUint8;
};
template <>
struct DTypeOf<int16_t> {
  static constexpr DType value = DType::kInt16;
};
template <>
struct DTypeOf<uint16_t> {
  static constexpr DType value = DType::kUint16;
};
template <>
struct DTypeOf<int32_t> {
  static constexpr DType value = DType::kInt32;
};
template <>
struct DTypeOf<uint32_t> {
  static constexpr DType value = DType::kUint32;
};
template <>
struct DTypeOf<int64_t> {
  static constexpr DType value = DType::kInt64;
};
template <>
struct DTypeOf<uint64_t> {
  static constexpr DType value = DType::kUint64;
};
template <>
struct DTypeOf<bool> {
  static constexpr DType value = DType::kBool;
};

/// Calls `function(T{})` with the C++ type of a whole-byte numeric dtype (bool as uint8_t); returns
/// false for the others (floats of 16 and 8 bits, 4-bit, string).
template <typename Function>
bool VisitDType(DType dtype, Function&& function) {
  switch (dtype) {
    case DType::kFloat32:
      return function(float{}), true;
    case DType::kFloat64:
      return function(double{}), true;
    case DType::kInt8:
      return function(int8_t{}), true;
    case DType::kUint8:
    case DType::kBool:
      return function(uint8_t{}), true;
    case DType::kInt16:
      return function(int16_t{}), true;
    case DType::kUint16:
      return function(uint16_t{}), true;
    case DType::kInt32:
      return function(int32_t{}), true;
    case DType::kUint32:
      return function(uint32_t{}), true;
    case DType::kInt64:
      return function(int64_t{}), true;
    case DType::kUint64:
      return function(uint64_t{}), true;
    default:
      return false;
  }
}

}  // namespace requant

#include "tensor/dtype.h"

#include "base/checked_math.h"

namespace requant {
namespace {

struct Row {
  DType dtype;
  const char* name;
  int bits;
};

constexpr Row kRows[] = {
    {DType::kFloat32, "float32", 32},
    {DType::kUint8, "uint8", 8},
    {DType::kInt8, "int8", 8},
    {DType::kUint16, "uint16", 16},
    {DType::kInt16, "int16", 16},
    {DType::kInt32, "int32", 32},
    {DType::kInt64, "int64", 64},
    {DType::kString, "string", 64},
    {DType::kBool, "bool", 8},
    {DType::kFloat16, "float16", 16},
    {DType::kFloat64, "float64", 64},
    {DType::kUint32, "uint32", 32},
    {DType::kUint64, "uint64", 64},
    {DType::kBfloat16, "bfloat16", 16},
    {DType::kFloat8E4M3FN, "float8e4m3fn", 8},
    {DType::kFloat8E4M3FNUZ, "float8e4m3fnuz", 8},
    {DType::kFloat8E5M2, "float8e5m2", 8},
    {DType::kFloat8E5M2FNUZ, "float8e5m2fnuz", 8},
    {DType::kUint4, "uint4", 4},
    {DType::kInt4, "int4", 4},
    {DType::kUint2, "uint2", 2},
    {DType::kInt2, "int2", 2},
};

const Row* Find(DType dtype) {
  if (static_cast<uint8_t>(dtype) >= kOptionalBit) dtype = DType::kUint8;
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return &row;
  }
  return nullptr;
}

}  // namespace

int DTypeBits(DType dtype) {
  const Row* row = Find(dtype);
  return row ? row->bits : 0;
}

size_t DTypeBytes(DType dtype, size_t count) {
  const auto bits = static_cast<size_t>(DTypeBits(dtype));
  return bits >= 8 ? CheckedMul(count, bits / 8) : CheckedAdd(CheckedMul(count, bits), 7) / 8;
}

const char* DTypeName(DType dtype) {
  const Row* row = Find(dtype);
  return row ? row->name : "undefined";
}

DType DTypeFromName(std::string_view name) {
  for (const Row& row : kRows) {
    if (name == row.name) return row.dtype;
  }
  return DType::kUndefined;
}

bool IsFloat(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat64 || IsHalf(dtype) || IsFloat8(dtype);
}

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBfloat16; }

bool IsFloat8(DType dtype) {
  return dtype >= DType::kFloat8E4M3FN && dtype <= DType::kFloat8E5M2FNUZ;
}

bool IsInteger(DType dtype) {
  return dtype != DType::kUndefined && dtype != DType::kBool && dtype != DType::kString &&
         !IsFloat(dtype);
}

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUint8; }

}  // namespace requant

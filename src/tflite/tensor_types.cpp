#include "tflite/tensor_types.h"

namespace requant::tflite {
namespace {

struct Pair {
  TensorType file;
  DType graph;
};

constexpr Pair kPairs[] = {
    {TensorType::kFloat32, DType::kFloat32},   {TensorType::kFloat16, DType::kFloat16},
    {TensorType::kBfloat16, DType::kBfloat16}, {TensorType::kFloat64, DType::kFloat64},
    {TensorType::kInt8, DType::kInt8},         {TensorType::kUint8, DType::kUint8},
    {TensorType::kInt16, DType::kInt16},       {TensorType::kUint16, DType::kUint16},
    {TensorType::kInt32, DType::kInt32},       {TensorType::kUint32, DType::kUint32},
    {TensorType::kInt64, DType::kInt64},       {TensorType::kUint64, DType::kUint64},
    {TensorType::kBool, DType::kBool},         {TensorType::kInt4, DType::kInt4},
};

}  // namespace

DType DTypeOf(TensorType type) {
  for (const Pair& pair : kPairs) {
    if (pair.file == type) return pair.graph;
  }
  return DType::kUndefined;
}

std::optional<TensorType> TensorTypeOf(DType dtype) {
  for (const Pair& pair : kPairs) {
    if (pair.graph == dtype) return pair.file;
  }
  return std::nullopt;
}

}  // namespace requant::tflite

// Operators whose operands or results have 16-bit codes ("wide" operators). Each is named as its
// 8-bit relative with "16" behind it, in ai.requant, and has the same inputs and attributes; every
// operand and the result have 8 or 16 bits, in any combination.
#pragma once

#include <cstdint>

#include "ir/graph.h"
#include "numeric/wide.h"
#include "ops/op.h"

namespace requant {

inline constexpr bool IsWide(DType dtype) {
  return dtype == DType::kInt16 || dtype == DType::kUint16;
}
/// Whether it is a type of activation codes: 8 or 16 bits.
inline constexpr bool IsCode(DType dtype) {
  return dtype == DType::kInt8 || dtype == DType::kUint8 || IsWide(dtype);
}

/// The least and the largest number of a type of codes.
inline constexpr int32_t CodeMin(DType dtype) {
  return dtype == DType::kInt8 ? -128 : dtype == DType::kInt16 ? -32768 : 0;
}
inline constexpr int32_t CodeMax(DType dtype) {
  return CodeMin(dtype) + (IsWide(dtype) ? 65535 : 255);
}

/// Writes an integer within the dtype's range to a tensor of codes.
inline void StoreCode(void* to, DType dtype, int64_t index, int32_t value) {
  if (IsWide(dtype)) {
    static_cast<uint16_t*>(to)[index] = static_cast<uint16_t>(value);
  } else {
    static_cast<uint8_t*>(to)[index] = static_cast<uint8_t>(value);
  }
}

/// Divides layers with 16-bit data into products of bytes, and Concats into changes of scale
/// (wide_rewrite.cpp). Returns whether there were any.
bool RewriteWide(Graph& graph);

}  // namespace requant

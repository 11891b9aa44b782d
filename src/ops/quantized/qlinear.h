// Helpers that the integer operators share: they read and check scales and zero points.
#pragma once

#include <cstdint>
#include <vector>

#include "numeric/lut.h"
#include "ops/op.h"

namespace requant {

/// Scales and zero points of one operand: one entry each, or one per channel.
struct QuantOperand {
  std::vector<float> scales;
  std::vector<int32_t> zeros;

  float ScaleAt(size_t i) const { return scales.size() == 1 ? scales[0] : scales[i]; }
  int32_t ZeroAt(size_t i) const { return zeros.size() == 1 ? zeros[0] : zeros[i]; }
};

/// The scales that are allowed. A scale of 0 makes all values 0; tools write it for channels whose
/// weights are all 0.
enum class ScaleRule : uint8_t { kPositive, kPositiveOrZero };

/// Throws kInvalidQuantization, naming the value in that input slot, unless every scale is finite
/// and follows the rule.
void CheckScales(const Node& node, size_t slot, const Tensor& scales,
                 ScaleRule rule = ScaleRule::kPositive);

/// Reads the operand whose parameters are in these slots. A missing zero point is 0. Throws
/// kTypeMismatch when the zero point is not of `dtype` (kUndefined: of any type),
/// kInvalidQuantization for a bad scale, kShapeMismatch when there are neither one nor `count`
/// entries (count 1: per tensor only).
QuantOperand ReadOperand(const EvalContext& context, DType dtype, size_t scale_slot,
                         size_t zero_slot, int64_t count = 1,
                         ScaleRule rule = ScaleRule::kPositive);

/// Makes the checks of ReadOperand at inference, as far as the values are known. An unknown `count`
/// is not checked.
void CheckOperand(const InferContext& context, DType dtype, size_t scale_slot, size_t zero_slot,
                  const Dim& count = 1, ScaleRule rule = ScaleRule::kPositive);

/// The dtype of an output: that of its zero point, or `fallback` without one.
DType QuantizedDType(const InferContext& context, size_t zero_slot, DType fallback);
DType QuantizedDType(const EvalContext& context, size_t zero_slot, DType fallback);

/// The parameters of a per-tensor 8-bit operand.
ByteScale ToByteScale(const QuantOperand& operand, DType dtype);

/// An 8-bit tensor's integers less its (per-tensor) zero point. Throws kTypeMismatch for other
/// tensors.
std::vector<int32_t> CenteredValues(const Tensor& tensor, int32_t zero);

/// The limits of an 8-bit dtype.
int32_t ByteMin(DType dtype);
int32_t ByteMax(DType dtype);

/// Writes an integer within the dtype's range to an 8-bit tensor.
inline void StoreByte(void* to, int64_t index, int32_t value) {
  static_cast<uint8_t*>(to)[index] = static_cast<uint8_t>(value);
}
inline int32_t LoadByte(const void* from, DType dtype, int64_t index) {
  const uint8_t bits = static_cast<const uint8_t*>(from)[index];
  return dtype == DType::kInt8 ? static_cast<int8_t>(bits) : bits;
}

/// A 64-bit sum in the form of the kernels' accumulators: int32 that wraps around.
inline int32_t Accumulator(int64_t sum) {
  return static_cast<int32_t>(static_cast<uint32_t>(static_cast<uint64_t>(sum)));
}

/// The bound for PrepareRequantize where nothing is known of the accumulators.
inline constexpr int64_t kAnyAccumulator = int64_t{1} << 31;

/// Throws for tensors that are neither int8 nor uint8.
void RequireBytes(const Tensor& tensor, const Node& node);
/// The table's entry for every element of x. `table` has 256 entries, indexed by the bit pattern.
Tensor LookUp(const Tensor& x, const void* table, DType dtype);

}  // namespace requant

#pragma once
// Facts of constant 8-bit weights answer what the choice of a row asks, so that only packing reads
// the weights themselves.
#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/conv/levels.h"
#include "kernels/conv/pack_walk.h"

namespace requant {

/// The answers of RangeOf(), LevelsOf() and ConvQ8AccumulatorBounds() for constant weights, which
/// they take from ConvQ8Weights::facts. The sums of all channels lie behind it in memory.
struct alignas(int64_t) ConvQ8Facts {
  conv::WeightRange range;
  /// nullopt: more levels than any row takes, or more than 8 bits.
  std::optional<conv::Levels> levels;

  /// For each output channel, the sum of |weight - zero point|.
  const int64_t* sums() const { return reinterpret_cast<const int64_t*>(this + 1); }
};

/// The bytes of the facts of these weights.
size_t ConvQ8FactsSize(const ConvQ8Weights& weights);
/// Reads the weights, and writes their facts into 16-byte aligned memory.
void FindConvQ8Facts(const ConvQ8Weights& weights, void* facts);

}  // namespace requant

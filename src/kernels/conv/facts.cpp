#include "kernels/conv/facts.h"

#include <new>

#include "base/checked_math.h"

namespace requant {
namespace {

/// The most levels for which the choice of a row asks: weights of different zero points may have
/// 256 by their codes (PopcountSupports), others are of 8 bits from 129 levels on
/// (ConvQ8WeightBits).
size_t MostLevels(const ConvQ8Weights& w) { return w.zero_points == nullptr ? 128 : 256; }

}  // namespace

size_t ConvQ8FactsSize(const ConvQ8Weights& w) {
  return CheckedAdd(sizeof(ConvQ8Facts),
                    CheckedMul(static_cast<size_t>(w.layout.out_c), sizeof(int64_t)));
}

void FindConvQ8Facts(const ConvQ8Weights& weights, void* facts) {
  ConvQ8Weights w = weights;
  w.bias = nullptr;
  auto* found = new (facts) ConvQ8Facts{conv::RangeOf(w, 255), conv::LevelsOf(w, MostLevels(w))};
  ConvQ8AccumulatorBounds(w, 1, reinterpret_cast<int64_t*>(found + 1));
}

}  // namespace requant

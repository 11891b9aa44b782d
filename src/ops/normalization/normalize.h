#pragma once
// Helpers that the files of normalizations share.
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/op.h"

namespace requant {

/// Calls `function(T{})` for float32 and float64.
template <typename Function>
void VisitFloat(DType dtype, Function&& function) {
  if (dtype == DType::kFloat64) {
    function(double{});
  } else {
    function(float{});
  }
}

/// Throws unless `slot` is a vector with an entry for every channel (dimension 1 of input 0).
void RequirePerChannel(const InferContext& context, size_t slot);
/// The values of an input that must have `channels` elements.
std::vector<double> PerChannel(const EvalContext& context, size_t slot, int64_t channels);

struct Moments {
  double mean, inverse_deviation;
};

/// The mean and 1 / sqrt(variance + epsilon) (population variance) of `count` elements, in two
/// passes for accuracy.
template <typename T>
Moments MomentsOf(const T* from, int64_t count, double epsilon) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) sum += from[i];
  const double mean = sum / static_cast<double>(count);
  double squares = 0;
  for (int64_t i = 0; i < count; ++i) squares += (from[i] - mean) * (from[i] - mean);
  return {mean, 1 / std::sqrt(squares / static_cast<double>(count) + epsilon)};
}

}  // namespace requant

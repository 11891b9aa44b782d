// The operators of QONNX and their rewriting into integers share these rules: roundings, ranges,
// and parameters that are broadcast.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "tensor/tensor.h"

namespace requant::qonnx {

using Rounding = float (*)(float);

float RoundHalfEven(float x);

/// By the attribute rounding_mode. Throws kUnsupported for a mode that QONNX does not have.
Rounding RoundingOf(const Node& node, const char* fallback);

/// The least and the greatest integer of a type.
struct Limits {
  float low, high;
};

/// By the attributes signed and narrow. Throws kInvalidQuantization for less than 1 or more than 64
/// bits.
Limits LimitsOf(const Node& node, float bits);

/// The elements of a parameter, broadcast to the shape of x. Most are scalars.
class Along {
 public:
  Along(const Tensor& tensor, const Shape& shape);
  float operator[](size_t i) const { return at_.empty() ? values_[0] : values_[at_[i]]; }

 private:
  std::vector<float> values_;
  std::vector<uint32_t> at_;
};

}  // namespace requant::qonnx

#pragma once
#include <cstddef>
#include <cstdint>

namespace requant {

/// Weights of 16 bits that stand for float32 ones: `count` numbers in the order of the model's
/// tensor.
struct HalfWeights {
  const uint16_t* data = nullptr;  ///< null: the weights are float32
  size_t count = 0;
  bool bfloat = false;  ///< bfloat16, else float16
};

}  // namespace requant

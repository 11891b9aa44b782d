#pragma once
// The tables of pooling kernels. The scalar row defines the result; the last row is the best.
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/pool/kernel.h"

namespace requant {

struct MaxPoolF32Kernel {
  const char* name;  ///< unique among the rows
  const char* isa;   ///< "scalar" or "simd128"
  void (*run)(const MaxPoolF32Params* params);
};
struct MaxPoolQ8Kernel {
  const char* name;
  const char* isa;
  void (*run)(const MaxPoolQ8Params* params);
};
struct AvgPoolF32Kernel {
  const char* name;
  const char* isa;
  void (*run)(const AvgPoolF32Params* params);
};
struct AvgPoolQ8Kernel {
  const char* name;
  const char* isa;
  RequantizeMode mode;  ///< kUpward or kFloat
  void (*run)(const AvgPoolQ8Params* params);
};

std::span<const MaxPoolF32Kernel> MaxPoolF32Kernels();
std::span<const MaxPoolQ8Kernel> MaxPoolQ8Kernels();
std::span<const AvgPoolF32Kernel> AvgPoolF32Kernels();
std::span<const AvgPoolQ8Kernel> AvgPoolQ8Kernels();

/// The multipliers of input_scale / (output_scale * count) for count = first_count..last_count, in
/// this order. Without padding only the count kernel_h * kernel_w occurs, else 1..kernel_h *
/// kernel_w; a global pool needs one entry. Throws Error for a ratio that MakeFixedMultiplier
/// refuses.
std::vector<FixedMultiplier> AvgPoolMultipliers(float input_scale, float output_scale,
                                                int32_t first_count, int32_t last_count);

}  // namespace requant

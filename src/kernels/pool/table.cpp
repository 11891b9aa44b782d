#include "kernels/pool/table.h"

#include "numeric/multiplier.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

constexpr MaxPoolF32Kernel kMaxPoolF32[] = {
    {"maxpool_f32_scalar", "scalar", MaxPoolF32Reference},
    {"maxpool_f32_simd128", "simd128", rq_maxpool_f32},
};
constexpr MaxPoolQ8Kernel kMaxPoolQ8[] = {
    {"maxpool_q8_scalar", "scalar", MaxPoolQ8Reference},
    {"maxpool_q8_simd128", "simd128", rq_maxpool_q8},
};
constexpr AvgPoolF32Kernel kAvgPoolF32[] = {
    {"avgpool_f32_scalar", "scalar", AvgPoolF32Reference},
    {"avgpool_f32_simd128", "simd128", rq_avgpool_f32},
};
constexpr AvgPoolQ8Kernel kAvgPoolQ8[] = {
    {"avgpool_q8_fixed_scalar", RequantizeMode::kUpward, "scalar", AvgPoolQ8FixedReference},
    {"avgpool_q8_fixed_simd128", RequantizeMode::kUpward, "simd128", rq_avgpool_q8_fixed},
    {"avgpool_q8_float_scalar", RequantizeMode::kFloat, "scalar", AvgPoolQ8FloatReference},
    {"avgpool_q8_float_simd128", RequantizeMode::kFloat, "simd128", rq_avgpool_q8_float},
};

}  // namespace

std::span<const MaxPoolF32Kernel> MaxPoolF32Kernels() { return kMaxPoolF32; }
std::span<const MaxPoolQ8Kernel> MaxPoolQ8Kernels() { return kMaxPoolQ8; }
std::span<const AvgPoolF32Kernel> AvgPoolF32Kernels() { return kAvgPoolF32; }
std::span<const AvgPoolQ8Kernel> AvgPoolQ8Kernels() { return kAvgPoolQ8; }

std::vector<FixedMultiplier> AvgPoolMultipliers(float input_scale, float output_scale,
                                                int32_t first_count, int32_t last_count) {
  std::vector<FixedMultiplier> multipliers;
  for (int32_t count = first_count; count <= last_count; ++count) {
    multipliers.push_back(MakeFixedMultiplier(
        AverageMultiplier(RequantizeMode::kUpward, input_scale, output_scale, count)));
  }
  return multipliers;
}

}  // namespace requant

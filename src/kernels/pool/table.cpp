#include "kernels/pool/table.h"

#include "numeric/multiplier.h"
#include "numeric/requantize_prepare.h"

namespace requant {
namespace {

constexpr MaxPoolF32Kernel kMaxPoolF32[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/pool/maxpool_f32.inc"
#undef ROW
};
constexpr MaxPoolQ8Kernel kMaxPoolQ8[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/pool/maxpool_q8.inc"
#undef ROW
};
constexpr AvgPoolF32Kernel kAvgPoolF32[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/pool/avgpool_f32.inc"
#undef ROW
};
constexpr AvgPoolQ8Kernel kAvgPoolQ8[] = {
#define ROW(linkage, run, name, ...) {name, __VA_ARGS__, run},
#include "kernels/pool/avgpool_q8.inc"
#undef ROW
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

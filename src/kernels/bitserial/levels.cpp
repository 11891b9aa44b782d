#include "kernels/bitserial/levels.h"

#include <bit>
#include <bitset>
#include <numeric>

#include "kernels/conv/pack_walk.h"

namespace requant::bitserial {
namespace {

/// Of a weight less its zero point.
constexpr int32_t kLowest = -512;

}  // namespace

std::optional<Levels> LevelsOf(const ConvQ8Weights& w, size_t most) {
  std::bitset<1024> seen;
  size_t found = 0;
  for (int32_t o = 0; o < w.layout.out_c; ++o) {
    conv::ForEachWeight(w.layout, o, [&](size_t, int64_t offset) {
      const auto at = static_cast<size_t>(conv::WeightAt(w, o, offset) - kLowest);
      if (seen[at]) return;
      seen[at] = true;
      ++found;
    });
    if (found > most) return std::nullopt;
  }
  int32_t lowest = 0, highest = 0, scale = 0;
  bool first = true;
  for (size_t at = 0; at < seen.size(); ++at) {
    if (!seen[at]) continue;
    highest = static_cast<int32_t>(at) + kLowest;
    if (first) lowest = highest;
    first = false;
    scale = std::gcd(scale, highest - lowest);
  }
  if (scale == 0) scale = 1;
  const auto range = static_cast<uint32_t>((highest - lowest) / scale);
  if (range > 255) return std::nullopt;
  const auto planes = static_cast<int32_t>(std::bit_width(range));
  return Levels{lowest, scale, planes < 1 ? 1 : planes};
}

}  // namespace requant::bitserial

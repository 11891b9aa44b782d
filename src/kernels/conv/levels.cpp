#include "kernels/conv/levels.h"

#include <algorithm>
#include <bit>
#include <bitset>
#include <numeric>

#include "kernels/conv/facts.h"
#include "kernels/conv/pack_walk.h"

namespace requant::conv {
namespace {

/// The index offset of `seen`: no weight less its zero point is below this.
constexpr int32_t kLowest = -512;

}  // namespace

std::optional<Levels> LevelsOf(const ConvQ8Weights& w, size_t most) {
  if (w.facts != nullptr) {
    const std::optional<Levels>& known = w.facts->levels;
    return known && known->count <= most ? known : std::nullopt;
  }
  std::bitset<1024> seen;  // [weight less its zero point - kLowest]
  bool bytes[256] = {};    // weights as stored, not yet added to `seen`
  int32_t zero_point = 0;  // the zero point of `bytes`
  const auto add_seen = [&] {
    for (int32_t byte = 0; byte < 256; ++byte) {
      const int32_t code = w.is_signed ? static_cast<int8_t>(byte) : byte;
      if (bytes[byte]) seen[static_cast<size_t>(code - zero_point - kLowest)] = true;
    }
    std::fill_n(bytes, 256, false);
  };
  // The order of weights does not matter, so each line is a run in memory where there is one.
  const ConvWeightsLayout& l = w.layout;
  const bool rows = AreRows(w), runs = rows || ArePlain(w);
  const int32_t lines = rows ? l.in_c_per_group : l.out_c;
  const size_t length = rows ? static_cast<size_t>(l.out_c) : Depth(l);
  const int64_t stride = rows ? l.stride_i : l.stride_o;
  for (int32_t line = 0; line < lines; ++line) {
    if (w.zero_points != nullptr && w.zero_points[line] != zero_point) {
      add_seen();
      zero_point = w.zero_points[line];
    }
    if (runs) {
      const uint8_t* run = static_cast<const uint8_t*>(w.data) + line * stride;
      for (size_t k = 0; k < length; ++k) bytes[run[k]] = true;
    } else {
      ForEachWeight(l, line, [&](size_t, int64_t offset) {
        bytes[static_cast<const uint8_t*>(w.data)[offset]] = true;
      });
    }
    // `seen` is updated at lines 1, 2, 4, 8, ... and behind the last one.
    if (!std::has_single_bit(static_cast<uint32_t>(line + 1)) && line + 1 < lines) continue;
    add_seen();
    if (seen.count() > most) return std::nullopt;
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
  return Levels{lowest, scale, planes < 1 ? 1 : planes, seen.count()};
}

}  // namespace requant::conv

// Additions of few codes in 16 bits. They have a file of their own since only networks of few bits
// need it (bindings/cmake/tools_sources.txt).
#include <cmath>
#include <cstdlib>
#include <initializer_list>

#include "numeric/qadd.h"

namespace requant {
namespace {

constexpr int64_t kMostPairs = 1024;

/// The bounds of the bias for which these factors give the results of `multipliers`, over all
/// pairs.
struct BiasBounds {
  int32_t least = -32768, most = 32767;
  bool none() const { return least > most; }
  void AtLeast(int32_t bound) { least = bound > least ? bound : least; }
  void AtMost(int32_t bound) { most = bound < most ? bound : most; }
};

struct Addition {
  const QAddMultipliers& multipliers;
  QAddRange a, b;
  int32_t out_zero, lo, hi;

  /// The code around which these factors need the fewest bits.
  int32_t Middle(int32_t factor_a, int32_t factor_b, int32_t shift) const {
    const int32_t ends = (a.lo + a.hi) * factor_a + (b.lo + b.hi) * factor_b;
    return out_zero + (ends >> (shift + 1));
  }

  BiasBounds BoundsOf(int32_t factor_a, int32_t factor_b, int32_t shift) const {
    BiasBounds bounds;
    const int32_t middle = Middle(factor_a, factor_b, shift), half = 1 << (shift - 1);
    for (int32_t x = a.lo; x <= a.hi && !bounds.none(); ++x) {
      for (int32_t y = b.lo; y <= b.hi; ++y) {
        const int32_t sum = x * factor_a + y * factor_b;
        const int32_t code = QAddFixed(x, y, multipliers, out_zero, lo, hi);
        // Beyond the clamp any sum is right, as long as 16 bits hold it.
        if (code > lo) bounds.AtLeast((code - middle) * (1 << shift) - half - sum);
        if (code < hi) bounds.AtMost((code + 1 - middle) * (1 << shift) - 1 - half - sum);
        bounds.AtLeast(-32768 - sum);
        bounds.AtMost(32767 - sum);
      }
    }
    return bounds;
  }
};

}  // namespace

QAddNarrow MakeQAddNarrow(const QAddMultipliers& multipliers, QAddRange a, QAddRange b,
                          int32_t out_zero, int32_t lo, int32_t hi) {
  constexpr QAddNarrow kNone;
  constexpr int32_t kMostShift = 14, kMostFactor = 32766;
  if (a.lo > a.hi || b.lo > b.hi) return kNone;
  if (int64_t{a.hi - a.lo + 1} * (b.hi - b.lo + 1) > kMostPairs) return kNone;
  const Addition addition{multipliers, a, b, out_zero, lo, hi};
  for (int32_t shift = kMostShift; shift > 0; --shift) {
    const auto a_factor =
        static_cast<int32_t>(std::lround(std::ldexp(multipliers.a, shift - multipliers.shift)));
    const auto b_factor =
        static_cast<int32_t>(std::lround(std::ldexp(multipliers.b, shift - multipliers.shift)));
    if (std::abs(a_factor) > kMostFactor || std::abs(b_factor) > kMostFactor) continue;
    for (const int32_t da : {0, 1, -1}) {
      for (const int32_t db : {0, 1, -1}) {
        const BiasBounds bounds = addition.BoundsOf(a_factor + da, b_factor + db, shift);
        if (bounds.none()) continue;
        const int32_t middle = addition.Middle(a_factor + da, b_factor + db, shift);
        const auto narrow = [](int32_t value) { return static_cast<int16_t>(value); };
        return {narrow(a_factor + da),
                narrow(b_factor + db),
                narrow(bounds.least + (bounds.most - bounds.least) / 2),
                narrow(shift),
                middle,
                0,
                a,
                b};
      }
    }
  }
  return kNone;
}

}  // namespace requant

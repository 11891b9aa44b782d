#include "ops/elementwise/float_loops.h"

#include <cmath>

#include "ops/elementwise/float_exp.h"
#include "ops/elementwise/functions.h"

namespace requant::float_loops {

void Ceil(const float* from, float* to, int64_t count, float, float) {
  MapFloats(from, to, count, [](float x) { return std::ceil(x); });
}
void Exp(const float* from, float* to, int64_t count, float, float) {
  MapFloats(from, to, count, [](float x) { return float_exp::Exp(x); });
}
void Floor(const float* from, float* to, int64_t count, float, float) {
  MapFloats(from, to, count, [](float x) { return std::floor(x); });
}
void Reciprocal(const float* from, float* to, int64_t count, float, float) {
  MapFloats(from, to, count, [](float x) { return 1 / x; });
}
void Round(const float* from, float* to, int64_t count, float, float) {
  MapFloats(from, to, count, [](float x) { return std::nearbyint(x); });  // half to even
}

bool Power(const float* from, float* to, int64_t count, double exponent) {
  if (exponent == 2) {
    MapFloats(from, to, count, [](float x) { return x * x; });
  } else if (exponent == 3) {
    MapFloats(from, to, count, [](float x) { return x * x * x; });
  } else if (std::fabs(exponent) == 0.5) {
    // pow(-0, 0.5) is 0 and pow(-infinity, 0.5) infinity, where the root is -0 and NaN (C17,
    // F.10.4.4).
    MapFloats(from, to, count,
              [](float x) { return std::sqrt((x == -HUGE_VALF ? HUGE_VALF : x) + 0.0F); });
    if (exponent < 0) Reciprocal(to, to, count, 0, 0);
  } else if (exponent == -1) {
    Reciprocal(from, to, count, 0, 0);
  } else {
    return false;
  }
  return true;
}

void Logic(char kind, const uint8_t* a, int64_t a_step, const uint8_t* b, int64_t b_step,
           uint8_t* to, int64_t count) {
  const uint8_t both = kind == 'X' ? 0 : 1;
  const uint8_t one = kind == 'A' ? 0 : 1;
  for (int64_t i = 0; i < count; ++i) {
    const bool p = a[i * a_step] != 0;
    const bool q = b[i * b_step] != 0;
    to[i] = static_cast<uint8_t>((p & q & both) | ((p ^ q) & one));
  }
}

void AddProducts(const float* weights, const float* columns, int64_t depth, float* sums) {
  for (int64_t k = 0; k < depth; ++k, columns += kColumns) {
    const float weight = weights[k];
    for (int64_t i = 0; i < kColumns; ++i) sums[i] += weight * columns[i];
  }
}

}  // namespace requant::float_loops

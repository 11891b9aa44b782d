#include "ops/float_loops.h"

#include <cmath>

#include "ops/float_exp.h"
#include "ops/functions.h"

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

}  // namespace requant::float_loops

// The scalar row. Adjacent elements are summed in sixteen interleaved lanes and the last few in
// four, which is the order of the vector row; the elements of columns are summed one after the
// other.
#include <cmath>
#include <limits>

#include "kernels/reduce/table.h"

namespace requant {
namespace {

float Term(ReduceF32Op op, float x) {
  if (op == ReduceF32Op::kL1) return std::fabs(x);
  return op == ReduceF32Op::kSumSquare || op == ReduceF32Op::kL2 ? x * x : x;
}

float Sum(const ReduceF32Params* p, const float* from) {
  constexpr size_t kLanes = 16;
  const size_t whole = p->count / kLanes * kLanes;
  float lanes[kLanes] = {};
  for (size_t c = 0; c < p->count; ++c) {
    const size_t lane = c < whole ? c % kLanes : c % 4;
    lanes[p->inner == 1 ? lane : 0] += Term(p->op, from[c * p->inner]);
  }
  for (size_t width = kLanes / 2; width > 0; width /= 2) {
    for (size_t i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  const float sum = lanes[0] * p->factor;
  return p->op == ReduceF32Op::kL2 ? std::sqrt(sum) : sum;
}

float Extreme(const ReduceF32Params* p, const float* from) {
  const bool least = p->op == ReduceF32Op::kMin;
  float best = -std::numeric_limits<float>::infinity();
  for (size_t c = 0; c < p->count; ++c) {
    const float x = least ? -from[c * p->inner] : from[c * p->inner];
    if (std::isnan(x)) return std::numeric_limits<float>::quiet_NaN();
    if (x > best) best = x;
  }
  return (least ? -best : best) + 0.0f;
}

}  // namespace

void ReduceF32Reference(const ReduceF32Params* p) {
  const bool extreme = p->op == ReduceF32Op::kMax || p->op == ReduceF32Op::kMin;
  for (size_t o = 0; o < p->outer; ++o) {
    for (size_t i = 0; i < p->inner; ++i) {
      const float* from = p->in + o * p->count * p->inner + i;
      p->out[o * p->inner + i] = extreme ? Extreme(p, from) : Sum(p, from);
    }
  }
}

}  // namespace requant

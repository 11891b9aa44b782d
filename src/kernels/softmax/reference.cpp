// The scalar rows. Sums run in four interleaved lanes and end as (l0 + l2) + (l1 + l3). This order
// of the vector row makes the two agree bit for bit and has a smaller error than one long sum.
#include <cstddef>

#include "kernels/fast_math.h"
#include "kernels/softmax/log.h"
#include "kernels/softmax/table.h"
#include "kernels/transcendental.h"

namespace requant {
namespace {

float RowMax(const float* in, size_t n) {
  float most = in[0];
  for (size_t i = 1; i < n; ++i) {
    if (most < in[i] || in[i] != in[i]) most = in[i];
  }
  return most;
}

float ReduceLanes(const float* lanes) { return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]); }

template <typename Exp>
void Softmax(const SoftmaxF32Params* p, const Exp& exp) {
  if (p->cols == 0) return;
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    float* out = p->out + r * p->out_row_stride;
    const float most = RowMax(in, p->cols);
    if (p->masked_to_zero && most == -__builtin_inff()) {
      for (size_t i = 0; i < p->cols; ++i) out[i] = 0;
      continue;
    }
    float lanes[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < p->cols; ++i) {
      const float e = exp(in[i] - most);
      out[i] = e;
      lanes[i % 4] += e;
    }
    const float sum = ReduceLanes(lanes);
    for (size_t i = 0; i < p->cols; ++i) out[i] = out[i] / sum;
  }
}

}  // namespace

void SoftmaxF32Reference(const SoftmaxF32Params* p) {
  Softmax(p, [](float x) { return transcendental::Exp(ScalarLanes(), x); });
}

void FastSoftmaxF32Reference(const SoftmaxF32Params* p) {
  Softmax(p, [](float x) { return fast_math::Exp(ScalarLanes(), x); });
}

void LogSoftmaxF32Reference(const SoftmaxF32Params* p) {
  if (p->cols == 0) return;
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->in_row_stride;
    float* out = p->out + r * p->out_row_stride;
    const float most = RowMax(in, p->cols);
    float lanes[4] = {0, 0, 0, 0};
    for (size_t i = 0; i < p->cols; ++i)
      lanes[i % 4] += transcendental::Exp(ScalarLanes(), in[i] - most);
    const float log_sum = softmax::LogOfSum(ReduceLanes(lanes));
    for (size_t i = 0; i < p->cols; ++i) {
      const float x = in[i] - most;
      out[i] = x - log_sum;
    }
  }
}

}  // namespace requant

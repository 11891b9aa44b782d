// The scalar row. Sums run in four interleaved lanes and end as (l0 + l2) + (l1 + l3). This order
// of the vector row makes the two agree bit for bit and has a smaller error than one long sum.
#include <cmath>
#include <cstddef>

#include "kernels/layer_norm/table.h"

namespace requant {
namespace {

/// The sum of term(i) for i in [0, n).
template <typename Term>
float LaneSum(size_t n, Term term) {
  float lanes[4] = {0, 0, 0, 0};
  for (size_t i = 0; i < n; ++i) lanes[i % 4] += term(i);
  return (lanes[0] + lanes[2]) + (lanes[1] + lanes[3]);
}

}  // namespace

void LayerNormF32Reference(const LayerNormF32Params* p) {
  const auto count = static_cast<float>(p->cols);
  for (size_t r = 0; r < p->rows; ++r) {
    const float* in = p->in + r * p->cols;
    float* out = p->out + r * p->cols;
    const float mean =
        p->center != 0 ? LaneSum(p->cols, [in](size_t i) { return in[i]; }) / count : 0.0f;
    const float squares = LaneSum(p->cols, [in, mean](size_t i) {
      const float difference = in[i] - mean;
      return difference * difference;
    });
    const float inverse = 1.0f / std::sqrt(squares / count + p->epsilon);
    for (size_t i = 0; i < p->cols; ++i) {
      const float scaled = (in[i] - mean) * inverse * p->scale[i];
      out[i] = p->bias == nullptr ? scaled : scaled + p->bias[i];
    }
  }
}

}  // namespace requant

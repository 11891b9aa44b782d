// Products of few rows, which read the matrix once and in place. This file is compiled for speed:
// compilers make vector instructions of the loops over lanes.
#include <algorithm>

#include "plan/lower/product/dynamic.h"

namespace requant {
namespace {

constexpr int64_t kLanes = 16;

/// Sums in kLanes interleaved lanes, added up in order at the end.
float Dot(const float* a, const float* b, int64_t count) {
  float lanes[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i + lane < count; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
  float sum = 0;
  for (const float lane : lanes) sum += lane;
  return sum;
}

/// Adds the sum of the matrix' rows times a to `out`, four rows at a time.
void AddRows(const float* a, const float* matrix, int64_t k, int64_t n, int64_t stride,
             float* out) {
  int64_t i = 0;
  for (; i + 4 <= k; i += 4) {
    const float* rows[4] = {matrix + i * stride, matrix + (i + 1) * stride,
                            matrix + (i + 2) * stride, matrix + (i + 3) * stride};
    for (int64_t j = 0; j < n; ++j) {
      out[j] = (((out[j] + a[i] * rows[0][j]) + a[i + 1] * rows[1][j]) + a[i + 2] * rows[2][j]) +
               a[i + 3] * rows[3][j];
    }
  }
  for (; i < k; ++i) {
    const float* row = matrix + i * stride;
    for (int64_t j = 0; j < n; ++j) out[j] += a[i] * row[j];
  }
}

}  // namespace

void MultiplyFew(const FewRows& form, const float* a, const float* matrix, const float* bias,
                 float* out) {
  const auto& [k, n, stride_k, stride_n] = form.matrix;
  for (int64_t r = 0; r < form.rows; ++r, a += form.a_stride, out += form.out_stride) {
    if (bias) {
      std::copy_n(bias + r * form.bias_stride, n, out);
    } else {
      std::fill(out, out + n, 0.0F);
    }
    if (stride_n == 1) {
      AddRows(a, matrix, k, n, stride_k, out);
    } else {
      for (int64_t j = 0; j < n; ++j) out[j] += Dot(a, matrix + j * stride_n, k);
    }
  }
}

}  // namespace requant

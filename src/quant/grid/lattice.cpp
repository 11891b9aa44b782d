#include "quant/grid/lattice.h"

#include <cmath>

namespace requant {
namespace {

/// The sum of a[i] b[n][i] for every n.
template <size_t N>
std::array<double, N> Sums(const double* a, const std::array<const double*, N>& b, size_t count) {
  double sums[N][4] = {};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t n = 0; n < N; ++n) {
      for (size_t lane = 0; lane < 4; ++lane) sums[n][lane] += a[i + lane] * b[n][i + lane];
    }
  }
  for (; i < count; ++i) {
    for (size_t n = 0; n < N; ++n) sums[n][0] += a[i] * b[n][i];
  }
  std::array<double, N> totals;
  for (size_t n = 0; n < N; ++n) totals[n] = (sums[n][0] + sums[n][1]) + (sums[n][2] + sums[n][3]);
  return totals;
}

}  // namespace

double Dot(const double* a, const double* b, size_t count) { return Sums<1>(a, {b}, count)[0]; }

std::array<double, 3> Dots(const double* a, const std::array<const double*, 3>& b, size_t count) {
  return Sums<3>(a, b, count);
}

bool UpperFactor(std::vector<double>& a, size_t k) {
  for (size_t row = k; row-- > 0;) {
    double* tail = a.data() + row * k;
    const size_t behind = k - row - 1;
    const double pivot = tail[row] - Dot(tail + row + 1, tail + row + 1, behind);
    if (!(pivot > 0)) return false;
    tail[row] = std::sqrt(pivot);
    const double inverse = 1 / tail[row];
    for (size_t j = 0; j < row; ++j) {
      double* other = a.data() + j * k;
      other[row] = (other[row] - Dot(other + row + 1, tail + row + 1, behind)) * inverse;
    }
  }
  return true;
}

}  // namespace requant

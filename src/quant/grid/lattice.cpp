#include "quant/grid/lattice.h"

#include <cmath>

namespace requant {

double Dot(const double* a, const double* b, size_t count) {
  double sums[4] = {0, 0, 0, 0};
  size_t i = 0;
  for (; i + 4 <= count; i += 4) {
    for (size_t lane = 0; lane < 4; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < count; ++i) sums[0] += a[i] * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
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

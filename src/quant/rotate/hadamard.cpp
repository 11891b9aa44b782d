#include "quant/rotate/hadamard.h"

#include <cmath>

#include "base/lcg.h"

namespace requant {

int64_t RotationSize(int64_t k, int64_t most) {
  int64_t size = 1;
  while (k % (2 * size) == 0 && 2 * size <= most) size *= 2;
  return size;
}

HadamardRotation::HadamardRotation(int64_t size) : signs_(static_cast<size_t>(size)) {
  const double length = 1 / std::sqrt(static_cast<double>(size));
  Lcg random{static_cast<uint32_t>(size)};
  for (double& sign : signs_) sign = random.Next() >> 31 ? length : -length;
}

void HadamardRotation::Apply(double* x, size_t count) const {
  const size_t size = signs_.size();
  for (double* end = x + count; x < end; x += size) {
    for (size_t i = 0; i < size; ++i) x[i] *= signs_[i];
    for (size_t half = 1; half < size; half *= 2) {
      for (size_t begin = 0; begin < size; begin += 2 * half) {
        for (size_t i = begin; i < begin + half; ++i) {
          const double a = x[i], b = x[i + half];
          x[i] = a + b;
          x[i + half] = a - b;
        }
      }
    }
  }
}

Tensor HadamardRotation::Matrix() const {
  Tensor out(DType::kFloat32, {size(), size()});
  std::vector<double> row(signs_.size());
  for (size_t i = 0; i < row.size(); ++i) {
    row.assign(row.size(), 0);
    row[i] = 1;
    Apply(row.data(), row.size());
    for (size_t j = 0; j < row.size(); ++j) {
      out.data<float>()[i * row.size() + j] = static_cast<float>(row[j]);
    }
  }
  return out;
}

}  // namespace requant

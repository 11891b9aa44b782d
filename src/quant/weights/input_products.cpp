#include "quant/weights/input_products.h"

#include <algorithm>
#include <cmath>

#include "quant/grid/lattice.h"

namespace requant {
namespace {

size_t RowOf(int64_t i) { return static_cast<size_t>(i * (i + 1) / 2); }

}  // namespace

InputProducts::InputProducts(int64_t k)
    : k_(k),
      sums_(RowOf(k)),
      magnitudes_(static_cast<size_t>(k)),
      rows_(static_cast<size_t>(4 * k)) {}

void InputProducts::Add(const float* rows, int64_t count) {
  const auto k = static_cast<size_t>(k_);
  count_ += count;
  for (; count > 0; count -= 4, rows += 4 * k_) {
    std::fill(rows_.begin(), rows_.end(), 0);
    const int64_t some = std::min<int64_t>(count, 4);
    for (size_t i = 0; i < static_cast<size_t>(some) * k; ++i) {
      rows_[i] = static_cast<double>(rows[i]);
      magnitudes_[i % k] += std::fabs(rows_[i]);
    }
    const double* a = rows_.data();
    const double *b = a + k, *c = b + k, *d = c + k;
    double* to = sums_.data();
    for (size_t i = 0; i < k; ++i) {
      const double ai = a[i], bi = b[i], ci = c[i], di = d[i];
      for (size_t j = 0; j <= i; ++j) {
        to[j] += (ai * a[j] + bi * b[j]) + (ci * c[j] + di * d[j]);
      }
      to += i + 1;
    }
  }
}

void InputProducts::Add(const InputProducts& other) {
  count_ += other.count_;
  for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += other.sums_[i];
  for (size_t i = 0; i < magnitudes_.size(); ++i) magnitudes_[i] += other.magnitudes_[i];
}

void InputProducts::Scale(const std::vector<double>& factors) {
  size_t at = 0;
  for (size_t i = 0; i < factors.size(); ++i) {
    for (size_t j = 0; j <= i; ++j) sums_[at++] *= factors[i] * factors[j];
    magnitudes_[i] *= std::fabs(factors[i]);
  }
}

void InputProducts::Map(size_t size, const std::function<void(double*)>& map) {
  std::vector<double> square(size * size), column(size);
  const auto at = [&](size_t i, size_t j) -> double& {
    return sums_[RowOf(static_cast<int64_t>(std::max(i, j))) + std::min(i, j)];
  };
  const auto k = static_cast<size_t>(k_);
  for (size_t top = 0; top < k; top += size) {
    for (size_t left = 0; left <= top; left += size) {
      for (size_t i = 0; i < size; ++i) {
        double* row = square.data() + i * size;
        for (size_t j = 0; j < size; ++j) row[j] = at(top + i, left + j);
        map(row);
      }
      for (size_t j = 0; j < size; ++j) {
        for (size_t i = 0; i < size; ++i) column[i] = square[i * size + j];
        map(column.data());
        for (size_t i = 0; i < size; ++i) {
          if (left < top || j <= i) at(top + i, left + j) = column[i];
        }
      }
    }
  }
}

bool InputProducts::finite() const {
  return std::all_of(sums_.begin(), sums_.end(), [](double sum) { return std::isfinite(sum); });
}

double InputProducts::Moment(int64_t i, int64_t j) const {
  const double sum = sums_[RowOf(std::max(i, j)) + static_cast<size_t>(std::min(i, j))];
  return sum / static_cast<double>(std::max<int64_t>(1, count_));
}

std::vector<double> InputProducts::Diagonal() const {
  std::vector<double> diagonal;
  for (int64_t i = 0; i < k_; ++i) diagonal.push_back(Moment(i, i));
  return diagonal;
}

std::vector<double> InputProducts::Magnitudes() const {
  std::vector<double> means = magnitudes_;
  for (double& mean : means) mean /= static_cast<double>(std::max<int64_t>(1, count_));
  return means;
}

double InputProducts::Power(const std::vector<double>& e) const {
  double power = 0;
  const double* row = sums_.data();
  for (size_t i = 0; i < e.size(); ++i) {
    power += e[i] * (2 * Dot(row, e.data(), i) + row[i] * e[i]);
    row += i + 1;
  }
  return power / static_cast<double>(std::max<int64_t>(1, count_));
}

}  // namespace requant

// Rounds blocks of weights with error feedback. With C = E[x x^T] = R R^T the error of a column is
// |R^T d|^2; recover/weights/round_weights.cpp derives which code each weight gets.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/sort.h"
#include "quant/grid/lattice.h"
#include "quant/weights/blocks.h"

namespace requant {
namespace {

constexpr int64_t kColumnsAtOnce = 8;  // share what the cache holds of the factor
constexpr int64_t kMeasuredColumns = 64;

/// The matrix C, permuted to `order`. Few rows leave some directions unseen, so that it shrinks
/// towards its diagonal, and a small share of the mean variance is added to the diagonal.
std::vector<double> Regularized(const InputProducts& inputs, const std::vector<size_t>& order) {
  const size_t k = order.size();
  double trace = 0;
  for (const double power : inputs.Diagonal()) trace += power;
  const auto seen = static_cast<double>(inputs.count());
  const double keep = seen / (seen + 0.2 * static_cast<double>(k) + 1);
  const double ridge = 0.01 * trace / static_cast<double>(k);
  std::vector<double> out(k * k);
  for (size_t i = 0; i < k; ++i) {
    const auto row = static_cast<int64_t>(order[i]);
    for (size_t j = 0; j < k; ++j) {
      out[i * k + j] = keep * inputs.Moment(row, static_cast<int64_t>(order[j]));
    }
    out[i * k + i] = inputs.Moment(row, row) + ridge;
  }
  return out;
}

}  // namespace

bool RoundWithFeedback(const Product& p, const InputProducts& inputs, BlockedWeights& weights) {
  const auto k = static_cast<size_t>(p.k);
  const std::vector<double> power = inputs.Diagonal();
  std::vector<size_t> order(k);
  std::iota(order.begin(), order.end(), size_t{0});
  StableSort(order, [&](size_t a, size_t b) { return power[a] > power[b]; });
  std::vector<double> factor = Regularized(inputs, order);
  if (!UpperFactor(factor, k)) return false;
  // Row `step` becomes column `step` of R above its diagonal, divided by the diagonal.
  for (size_t step = 0; step < k; ++step) {
    for (size_t j = 0; j < step; ++j) {
      factor[step * k + j] = factor[j * k + step] / factor[step * k + step];
    }
  }
  const double most = std::ldexp(1, weights.bits) - 1;
  std::vector<double> errors(k * static_cast<size_t>(kColumnsAtOnce));
  for (int64_t first = 0; first < p.n; first += kColumnsAtOnce) {
    const int64_t end = std::min(p.n, first + kColumnsAtOnce);
    for (size_t step = 0; step < k; ++step) {
      const auto row = static_cast<int64_t>(order[step]);
      for (int64_t column = first; column < end; ++column) {
        double* error = errors.data() + static_cast<size_t>(column - first) * k;
        const size_t block = weights.BlockOf(column, row);
        const auto wanted = static_cast<double>(p.weights[column * p.n_step + row * p.k_step]);
        const auto scale = static_cast<double>(weights.scales[block]);
        const double zero = weights.zeros[block];
        const double target = wanted - Dot(factor.data() + step * k, error, step);
        const double code = std::clamp(std::nearbyint(target / scale) + zero, 0.0, most);
        error[step] = (code - zero) * scale - wanted;
        weights.codes[static_cast<size_t>(column * p.k + row)] = static_cast<uint8_t>(code);
      }
    }
  }
  return true;
}

double OutputError(const Product& p, const InputProducts& inputs, const BlockedWeights& weights) {
  double signal = 0, noise = 0;
  std::vector<double> wanted(static_cast<size_t>(p.k)), errors(wanted.size());
  const int64_t columns = std::min(p.n, kMeasuredColumns);
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t column = i * p.n / columns;
    for (int64_t row = 0; row < p.k; ++row) {
      const auto at = static_cast<size_t>(row);
      wanted[at] = static_cast<double>(p.weights[column * p.n_step + row * p.k_step]);
      errors[at] = static_cast<double>(weights.At(column, row)) - wanted[at];
    }
    signal += inputs.Power(wanted);
    noise += inputs.Power(errors);
  }
  return signal > 0 ? noise / signal : 0;
}

}  // namespace requant

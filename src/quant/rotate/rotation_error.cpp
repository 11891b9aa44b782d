#include "quant/rotate/rotation_error.h"

#include <algorithm>
#include <optional>

#include "quant/weights/blocks.h"

namespace requant {
namespace {

constexpr int64_t kTriedColumns = 64;

/// Columns of a product that are spread over all of it, as another product.
struct Columns {
  Product product;
  std::vector<float> weights;  // [n][k]
};
Columns Take(const Product& p, const RotationTrial& trial) {
  Columns out{p, {}};
  out.product.n = std::min(p.n, kTriedColumns);
  std::vector<double> column(static_cast<size_t>(p.k));
  for (int64_t i = 0; i < out.product.n; ++i) {
    const int64_t from = i * p.n / out.product.n;
    for (int64_t k = 0; k < p.k; ++k) {
      const auto w = static_cast<double>(p.weights[from * p.n_step + k * p.k_step]);
      const float factor = trial.rotation && trial.factors ? trial.factors->data<float>()[k] : 1;
      column[static_cast<size_t>(k)] = w * static_cast<double>(factor);
    }
    if (trial.rotation) trial.rotation->Apply(column.data(), column.size());
    for (const double w : column) out.weights.push_back(static_cast<float>(w));
  }
  out.product.weights = out.weights.data();
  out.product.n_step = p.k;
  out.product.k_step = 1;
  return out;
}

/// The relative error of weights; the errors of row k count `power[k]` times, once if it is empty.
double WeightError(const Columns& columns, const BlockedWeights& blocks,
                   const std::vector<double>& power) {
  double signal = 0, noise = 0;
  for (int64_t n = 0; n < blocks.n; ++n) {
    for (int64_t k = 0; k < blocks.k; ++k) {
      const auto w = static_cast<double>(columns.weights[static_cast<size_t>(n * blocks.k + k)]);
      const double d = w - static_cast<double>(blocks.At(n, k));
      const double weight = power.empty() ? 1 : power[static_cast<size_t>(k)];
      signal += weight * w * w;
      noise += weight * d * d;
    }
  }
  return signal > 0 ? noise / signal : 0;
}

}  // namespace

std::vector<double> TryRotation(const std::vector<Product>& products, const InputProducts* inputs,
                                const RotationTrial& trial) {
  std::vector<double> errors, power;
  std::optional<InputProducts> seen;
  if (inputs) {
    seen = *inputs;
    if (trial.rotation) {
      const auto k = static_cast<size_t>(inputs->k());
      if (trial.factors) {
        std::vector<double> inverse(k);
        for (size_t i = 0; i < k; ++i) {
          const auto factor = static_cast<double>(trial.factors->data<float>()[i]);
          inverse[i] = factor == 0 ? 0 : 1 / factor;
        }
        seen->Scale(inverse);
      }
      const auto size = static_cast<size_t>(trial.rotation->size());
      seen->Map(size, [&](double* run) { trial.rotation->Apply(run, size); });
    }
    power = seen->Diagonal();
  } else if (trial.factors && !trial.rotation) {
    for (const float factor : trial.factors->values<float>()) {
      power.push_back(static_cast<double>(factor) * static_cast<double>(factor));
    }
  }
  for (const Product& p : products) {
    const Columns columns = Take(p, trial);
    if (!seen) {
      const BlockedWeights blocks = RoundToBlocks(columns.product, trial.weights);
      errors.push_back(WeightError(columns, blocks, power));
      continue;
    }
    BlockedWeights blocks = RoundToBlocks(columns.product, trial.weights, power);
    double error = OutputError(columns.product, *seen, blocks);
    if (trial.feedback && RoundWithFeedback(columns.product, *seen, blocks)) {
      error = std::min(error, OutputError(columns.product, *seen, blocks));
    }
    errors.push_back(error);
  }
  return errors;
}

}  // namespace requant

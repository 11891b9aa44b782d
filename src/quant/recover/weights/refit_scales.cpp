// refit_scales
//   Before: a layer's weights w are codes q, less their zero point, times the scale s that their
//   range gave
//   After:  the same codes times the scale with which the layer's outputs come closest
//   Formula: the expected squared error of an output, with the (co)variance C of the layer's
//   inputs, is
//              (s q - w)^T C (s q - w),  least for  s = q^T C w / q^T C q.
//            A scale that several rows share has the sums over these rows above and below the line.
//   Conditions: evenly spaced codes; scales that are free, neither powers of two nor given. A scale
//   changes by
//     at most a tenth, so that accumulators and multipliers keep their bounds
//     (quant/weights/weights.h).
//
// LQ-Nets (Zhang et al. 2018, arXiv:1807.10029, section 3.2) fit the basis of a grid to its codes
// in the same way.
#include <algorithm>
#include <cmath>

#include "quant/grid/affine.h"
#include "quant/grid/simple_multipliers.h"
#include "quant/recover/weights/layer_weights.h"

namespace requant {
namespace {

constexpr double kMostChange = 0.1;

/// Products of a row's codes q and weights w over C.
struct Products {
  double codes = 0;    // q^T C q
  double mixed = 0;    // q^T C w
  double weights = 0;  // w^T C w

  void Add(const Products& other) {
    codes += other.codes;
    mixed += other.mixed;
    weights += other.weights;
  }
  double Noise(double scale) const {
    return std::max(0.0, scale * scale * codes - 2 * scale * mixed + weights);
  }
};

/// C of one group: a full matrix, or its diagonal where no more was kept.
class InputProducts {
 public:
  InputProducts(const InputMoments& moments, int64_t group, bool centered)
      : full_(moments.full()),
        values_(full_ ? moments.Matrix(group, centered) : moments.Diagonal(group, centered)) {}

  Products Of(const std::vector<double>& codes, const std::vector<double>& weights) const {
    Products sum;
    const size_t k = codes.size();
    for (size_t i = 0; i < k; ++i) {
      double by_codes = full_ ? 0 : values_[i] * codes[i];
      double by_weights = full_ ? 0 : values_[i] * weights[i];
      for (size_t j = 0; full_ && j < k; ++j) {
        by_codes += values_[i * k + j] * codes[j];
        by_weights += values_[i * k + j] * weights[j];
      }
      sum.codes += codes[i] * by_codes;
      sum.mixed += weights[i] * by_codes;
      sum.weights += weights[i] * by_weights;
    }
    return sum;
  }

 private:
  bool full_;
  std::vector<double> values_;
};

/// The best scale near `start`. It remains a multiple of `unit` if it was one.
float Refitted(float start, const Products& sum, double unit) {
  const auto plain = static_cast<double>(start);
  const double best =
      std::clamp(sum.mixed / sum.codes, plain * (1 - kMostChange), plain * (1 + kMostChange));
  const double steps = unit > 0 ? std::round(plain / unit) : 0;
  const bool is_multiple = steps > 0 && std::fabs(steps * unit - plain) <= 1e-6 * plain;
  const double found = is_multiple ? NextWithFewTies(std::round(best / unit)) * unit : best;
  return found > 0 && sum.Noise(found) < sum.Noise(plain) ? static_cast<float>(found) : start;
}

}  // namespace

void RefitScales(LayerWeights& layer, LayerNoise& noise) {
  TensorQuantizationConfig& config = layer.config;
  if (config.baked.count() == 0) config.baked = QuantizeParameter(layer.weights, config);
  const WeightMatrix& view = layer.inputs.view();
  const auto k = static_cast<size_t>(view.k);
  std::vector<Products> sums(config.scale.size());
  std::vector<double> codes(k), weights(k);
  for (int64_t group = 0; group < view.groups; ++group) {
    const InputProducts inputs(layer.inputs, group, layer.centered);
    for (int64_t i = 0; i < view.rows_per_group(); ++i) {
      const int64_t row = group * view.rows_per_group() + i;
      for (size_t column = 0; column < k; ++column) {
        const int64_t at = view.At(row, static_cast<int64_t>(column));
        codes[column] = static_cast<double>(config.baked.AsInt64(at) - config.OffsetOfRow(row));
        weights[column] = static_cast<double>(layer.weights.data<float>()[at]);
      }
      sums[static_cast<size_t>(row) % sums.size()].Add(inputs.Of(codes, weights));
    }
  }
  const bool is_free = !(config.policy & kPowerOf2) && config.observer != "given";
  for (size_t channel = 0; channel < sums.size(); ++channel) {
    float& scale = config.scale[channel];
    noise.signal += sums[channel].weights;
    noise.before += sums[channel].Noise(static_cast<double>(scale));
    if (is_free && sums[channel].codes > 0) scale = Refitted(scale, sums[channel], layer.unit);
    noise.after += sums[channel].Noise(static_cast<double>(scale));
  }
}

}  // namespace requant

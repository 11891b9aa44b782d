// Rounds weights as a lattice problem. With C = R R^T, R upper triangular, the error of a row is
//   d^T C d = |R^T d|^2 = sum_k ( R_kk d_k + sum_{j<k} R_jk d_j )^2.
// Deciding the weights one after the other, each term can be made small by choosing
//   q_k = round( (w_k - t_k) / s ),  t_k = sum_{j<k} R_jk d_j / R_kk :
// every weight compensates the errors of those before it. This is GPTQ (Frantar et al. 2022, arXiv
// 2210.17323) without its matrix inverse: GPTQ's Cholesky factor of the inverse is R^-1, and its
// error feedback is Babai's nearest plane (Chen et al. 2025, arXiv 2507.18553). Nagel et al. 2020
// (AdaRound, arXiv 2004.10568) show that rounding to nearest is not optimal for the output.
//
// Weights are decided in order of decreasing variance, because the last ones have the fewest
// weights left to compensate them. A row keeps rounding to nearest if the feedback does not help
// it.
//
// Rows of few weights also choose their scale that way (RefineScales): how well a few numbers fit
// an evenly spaced grid is chance, and slightly wider steps are another chance.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/sort.h"
#include "quant/grid/affine.h"
#include "quant/grid/lattice.h"
#include "quant/grid/simple_multipliers.h"
#include "quant/observers/observer.h"
#include "quant/recover/weights/layer_weights.h"

namespace requant {
namespace {

constexpr double kMostWidening = 0.15;  // relative to a step; by RefineScales
// scales for a row, and their number times its weights
constexpr size_t kMostChoices = 48, kChoiceWork = 2048;

Lattice LatticeOf(const InputMoments& moments, int64_t group, bool centered) {
  return MakeLattice(moments.Matrix(group, centered), static_cast<size_t>(moments.view().k),
                     static_cast<double>(moments.count()));
}

/// The row that is rounded, in the order of decision.
struct Row {
  double lo = 0, hi = 0;        // the least and the greatest code, less the zero point
  std::vector<double> wanted;   // w / s
  std::vector<double> nearest;  // errors of rounding to nearest, in steps
  std::vector<double> chosen;   // errors with error feedback, in steps
  double nearest_cost = 0;
  double chosen_cost = 0;
  double power = 0;  // power of the output
};

/// The nearest code to a number in steps, less the zero point.
class Nearest {
 public:
  explicit Nearest(const TensorQuantizationConfig& config) : bipolar_(config.bipolar()) {}
  double operator()(double x, double lo, double hi) const {
    if (bipolar_) return x >= 0 ? 1 : -1;
    return std::clamp(std::nearbyint(x), lo, hi);
  }
  /// The code below x, or above it.
  double Neighbor(double x, bool above, double lo, double hi) const {
    if (bipolar_) return above ? 1 : -1;
    return std::clamp(above ? std::ceil(x) : std::floor(x), lo, hi);
  }

 private:
  bool bipolar_;
};

/// The byte of a code, of int8 or uint8.
uint8_t ByteOf(double code) { return static_cast<uint8_t>(static_cast<int32_t>(code)); }

/// The least and the greatest code of a row, less the zero point.
struct RowCodes {
  double lo, hi;
};
RowCodes CodesOfRow(const TensorQuantizationConfig& config, int64_t row) {
  const int32_t offset = config.OffsetOfRow(row);
  return {static_cast<double>(config.quant_min - offset),
          static_cast<double>(config.quant_max - offset)};
}

/// Rounds weights with too many inputs for a matrix. Only the mean error can be controlled: C =
/// diag(v) + m m^T. Each weight takes the neighbor that keeps v_k d_k^2 + (running mean error)^2
/// smaller.
void RoundByMean(const Tensor& weights, const InputMoments& moments, int64_t group,
                 const TensorQuantizationConfig& config, Tensor& integers, LayerNoise& noise) {
  const WeightMatrix& view = moments.view();
  const std::vector<double> mean = moments.Mean(group);
  const std::vector<double> variance = moments.Diagonal(group, true);
  const Nearest nearest_code(config);
  const float* data = weights.data<float>();
  auto* codes = static_cast<uint8_t*>(integers.raw());
  for (int64_t i = 0; i < view.rows_per_group(); ++i) {
    const int64_t row = group * view.rows_per_group() + i;
    const double inverse = 1 / config.ScaleOfRow(row);
    const double unit = 1 / (inverse * inverse);
    const auto [lo, hi] = CodesOfRow(config, row);
    const double zero = config.OffsetOfRow(row);
    double running = 0;
    double nearest_running = 0;
    double output = 0;  // mean of the output
    for (int64_t column = 0; column < view.k; ++column) {
      const auto at = static_cast<size_t>(column);
      const int64_t offset = view.At(row, column);
      const double wanted = static_cast<double>(data[offset]) * inverse;
      const double nearest = nearest_code(wanted, lo, hi) - wanted;
      double best = 0;
      double best_cost = HUGE_VAL;
      for (const bool above : {false, true}) {
        const double q = nearest_code.Neighbor(wanted, above, lo, hi);
        const double error = q - wanted;
        const double shifted = running + mean[at] * error;
        const double cost = variance[at] * error * error + shifted * shifted;
        if (cost < best_cost) {
          best_cost = cost;
          best = q;
        }
      }
      running += mean[at] * (best - wanted);
      nearest_running += mean[at] * nearest;
      output += mean[at] * wanted;
      noise.signal += unit * variance[at] * wanted * wanted;
      noise.before += unit * variance[at] * nearest * nearest;
      noise.after += unit * variance[at] * (best - wanted) * (best - wanted);
      codes[offset] = ByteOf(best + zero);
    }
    noise.signal += unit * output * output;
    noise.before += unit * nearest_running * nearest_running;
    noise.after += unit * running * running;
  }
}

/// A step that is wider by about `share`; it stays a multiple of `unit` if it was one.
float Widened(float start, double share, double unit) {
  const auto plain = static_cast<double>(start);
  const double steps = unit > 0 ? std::round(plain / unit) : 0;
  if (!(std::fabs(steps * unit - plain) <= 1e-6 * plain)) {
    return static_cast<float>(plain * (1 + share));
  }
  return static_cast<float>(NextWithFewTies(std::round(steps * (1 + share))) * unit);
}

}  // namespace

Lattice MakeLattice(const std::vector<double>& moments, size_t k, double seen) {
  Lattice lattice;
  lattice.order.resize(k);
  std::iota(lattice.order.begin(), lattice.order.end(), size_t{0});
  StableSort(lattice.order,
             [&](size_t a, size_t b) { return moments[a * k + a] > moments[b * k + b]; });
  double trace = 0;
  for (size_t i = 0; i < k; ++i) trace += moments[i * k + i];
  const double keep = seen / (seen + 0.2 * static_cast<double>(k) + 1);
  const double ridge = 0.01 * trace / static_cast<double>(k);
  lattice.factor.resize(k * k);
  for (size_t i = 0; i < k; ++i) {
    for (size_t j = 0; j < k; ++j) {
      lattice.factor[i * k + j] = keep * moments[lattice.order[i] * k + lattice.order[j]];
    }
    lattice.factor[i * k + i] = moments[lattice.order[i] * k + lattice.order[i]] + ridge;
  }
  if (!UpperFactor(lattice.factor, k)) lattice.factor.clear();
  return lattice;
}

void RoundOnLattice(const Tensor& weights, const WeightMatrix& view, int64_t group,
                    const Lattice& lattice, const TensorQuantizationConfig& config,
                    Tensor& integers, LayerNoise& noise) {
  const auto k = static_cast<size_t>(view.k);
  const std::vector<double>& factor = lattice.factor;
  if (factor.empty()) return;

  const Nearest nearest_code(config);
  const float* data = weights.data<float>();
  const int64_t first = group * view.rows_per_group();
  std::vector<Row> rows(static_cast<size_t>(view.rows_per_group()));
  for (size_t i = 0; i < rows.size(); ++i) {
    const int64_t row = first + static_cast<int64_t>(i);
    const double inverse = 1 / config.ScaleOfRow(row);
    const auto [lo, hi] = CodesOfRow(config, row);
    rows[i].lo = lo;
    rows[i].hi = hi;
    rows[i].chosen.resize(k);
    for (const size_t column : lattice.order) {
      const int64_t at = view.At(row, static_cast<int64_t>(column));
      const double wanted = static_cast<double>(data[at]) * inverse;
      rows[i].wanted.push_back(wanted);
      rows[i].nearest.push_back(nearest_code(wanted, lo, hi) - wanted);
    }
  }
  std::vector<double> column(k);
  for (size_t step = 0; step < k; ++step) {
    const double pivot = factor[step * k + step];
    for (size_t j = 0; j < step; ++j) column[j] = factor[j * k + step] / pivot;
    for (Row& row : rows) {
      const auto [pull, nearest_pull, output_pull] =
          Dots(column.data(), {row.chosen.data(), row.nearest.data(), row.wanted.data()}, step);
      const double wanted = row.wanted[step];
      const double output = pivot * (wanted + output_pull);
      row.chosen[step] = nearest_code(wanted - pull, row.lo, row.hi) - wanted;
      const double term = pivot * (row.chosen[step] + pull);
      const double nearest_term = pivot * (row.nearest[step] + nearest_pull);
      row.chosen_cost += term * term;
      row.nearest_cost += nearest_term * nearest_term;
      row.power += output * output;
    }
  }
  auto* codes = static_cast<uint8_t*>(integers.raw());
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const double scale = config.ScaleOfRow(first + static_cast<int64_t>(i));
    const double offset = config.OffsetOfRow(first + static_cast<int64_t>(i));
    const double unit = scale * scale;
    noise.signal += unit * row.power;
    noise.before += unit * row.nearest_cost;
    noise.after += unit * std::min(row.chosen_cost, row.nearest_cost);
    if (!(row.chosen_cost < row.nearest_cost)) continue;
    for (size_t step = 0; step < k; ++step) {
      const int64_t at =
          view.At(first + static_cast<int64_t>(i), static_cast<int64_t>(lattice.order[step]));
      codes[at] = ByteOf(std::nearbyint(row.wanted[step] + row.chosen[step]) + offset);
    }
  }
}

void RefineScales(const Tensor& weights, const InputMoments& moments, bool centered, double unit,
                  TensorQuantizationConfig& config) {
  const WeightMatrix& view = moments.view();
  const auto k = static_cast<size_t>(view.k);
  const size_t choices = std::min(kMostChoices, kChoiceWork / std::max<size_t>(1, k));
  if (choices < 2 || !moments.full() || moments.count() == 0) return;
  const float* data = weights.data<float>();
  std::vector<double> wanted(k), errors(k), columns(k * k);
  for (int64_t group = 0; group < view.groups; ++group) {
    const Lattice lattice = LatticeOf(moments, group, centered);
    if (lattice.factor.empty()) continue;
    for (size_t step = 0; step < k; ++step) {
      for (size_t j = 0; j <= step; ++j) columns[step * k + j] = lattice.factor[j * k + step];
    }
    for (int64_t i = 0; i < view.rows_per_group(); ++i) {
      const int64_t row = group * view.rows_per_group() + i;
      for (size_t step = 0; step < k; ++step) {
        wanted[step] =
            static_cast<double>(data[view.At(row, static_cast<int64_t>(lattice.order[step]))]);
      }
      float& scale = config.scale[static_cast<size_t>(row)];
      const auto [lo, hi] = CodesOfRow(config, row);
      const float start = scale;
      float previous = start;
      double least = HUGE_VAL;
      for (size_t choice = 0; choice < choices; ++choice) {
        const double widening =
            kMostWidening * static_cast<double>(choice) / static_cast<double>(choices - 1);
        const float tried = Widened(start, widening, unit);
        if (choice > 0 && tried == previous) continue;
        previous = tried;
        const auto width = static_cast<double>(tried);
        double cost = 0;
        for (size_t step = 0; step < k && cost < least; ++step) {
          const double* column = columns.data() + step * k;
          const double pull = Dot(column, errors.data(), step) / column[step];
          const double target = wanted[step] / width;
          errors[step] =
              (std::clamp(std::nearbyint(target - pull / width), lo, hi) - target) * width;
          const double term = column[step] * (errors[step] + pull);
          cost += term * term;
        }
        if (cost < least) {
          least = cost;
          scale = tried;
        }
      }
    }
  }
}

Tensor RoundWeights(const Tensor& weights, const InputMoments& moments,
                    const TensorQuantizationConfig& config, bool centered, LayerNoise* noise) {
  LayerNoise unused;
  if (noise == nullptr) noise = &unused;
  Tensor integers = QuantizeParameter(weights, config);
  if (moments.count() == 0) return integers;
  for (int64_t group = 0; group < moments.view().groups; ++group) {
    if (moments.full()) {
      RoundOnLattice(weights, moments.view(), group, LatticeOf(moments, group, centered), config,
                     integers, *noise);
    } else if (!centered) {
      RoundByMean(weights, moments, group, config, integers, *noise);
    }
  }
  return integers;
}

void RoundLayer(LayerWeights& layer, LayerNoise& noise) {
  TensorQuantizationConfig& config = layer.config;
  const ObserverRow* observer = FindObserver(config.observer);
  const bool weighs = observer != nullptr && observer->weighs_inputs;
  if (weighs && config.bits > 5 &&
      config.scale.size() == static_cast<size_t>(layer.inputs.view().rows) &&
      !(config.policy & kPowerOf2)) {
    RefineScales(layer.weights, layer.inputs, layer.centered, layer.unit, config);
  }
  config.baked = RoundWeights(layer.weights, layer.inputs, config, layer.centered, &noise);
}

}  // namespace requant

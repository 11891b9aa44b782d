// Rounds the layers one after the other so that they make up for the layers before them. A layer of
// the float network computes y = W x + b. Its quantized form reads x' instead of x, and gets the
// integer weights Q and the bias b' that keep E|Q x' + b' - y|^2 small:
//   V = W + (E[y x'^T] - W E[x' x'^T]) A^-1     least squares, A = E[x' x'^T], regularized
//   Q = V, rounded with error feedback on A     as round_weights does it
//   b' = E[y] - Q E[x']
// where the moments are covariances if the layer has a bias. GPTAQ (Li et al. 2025, arXiv
// 2504.02692) calibrates language models in this asymmetric way. What does not lower the error on
// samples kept out of the sums is undone.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "quant/assign/assign.h"
#include "quant/grid/affine.h"
#include "quant/grid/lattice.h"
#include "quant/recover/learn/block_job.h"
#include "quant/recover/weights/layer_weights.h"
#include "quant/sim/elements.h"
#include "quant/sim/gemm.h"

namespace requant {
namespace {

/// The longest row, and the most elements of the k x k matrices of all groups (128 MB).
constexpr int64_t kMostInputs = 4096, kMostSquares = int64_t{1} << 24;

/// The sums of one group over all pixels of all samples.
struct GroupSums {
  std::vector<double> squares;          // x' x'^T, k x k; only the upper half until Fit()
  std::vector<double> products;         // y x'^T, rows x k
  std::vector<double> inputs, outputs;  // x' and y
};

void AddTo(std::vector<double>& sums, const std::vector<float>& more) {
  sums.resize(more.size());
  double* to = sums.data();
  const float* from = more.data();
  for (size_t i = 0, n = more.size(); i < n; ++i) to[i] += static_cast<double>(from[i]);
}

/// Adds x x^T of a matrix x (k x pixels) to the upper half of `sums`. `made` is memory for floats.
void AddSquares(const MatrixView& x, int64_t k, int64_t pixels, std::vector<float>& made,
                std::vector<double>& sums) {
  constexpr int64_t kRows = 64;  // rows whose products with earlier columns are left out together
  sums.resize(static_cast<size_t>(k * k));
  made.resize(static_cast<size_t>(kRows * k));
  for (int64_t first = 0; first < k; first += kRows) {
    const int64_t rows = std::min(kRows, k - first);
    const float* data = x.data + first * x.row_step;
    Gemm(rows, k - first, pixels, {data, x.row_step, x.column_step},
         {data, x.column_step, x.row_step}, made.data(), k, false);
    for (int64_t row = 0; row < rows; ++row) {
      double* to = sums.data() + (first + row) * k + first;
      const float* from = made.data() + row * k;
      for (int64_t i = row; i < k - first; ++i) to[i] += static_cast<double>(from[i]);
    }
  }
}

/// Copies the upper half of a k x k matrix to the lower one.
void Mirror(std::vector<double>& matrix, size_t k) {
  double* data = matrix.data();
  for (size_t row = 0; row < k; ++row) {
    for (size_t column = 0; column < row; ++column) {
      data[row * k + column] = data[column * k + row];
    }
  }
}

/// The sums of a matrix's rows.
std::vector<float> RowSums(const MatrixView& matrix, int64_t rows, int64_t columns) {
  std::vector<float> sums(static_cast<size_t>(rows));
  for (int64_t row = 0; row < rows; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < columns; ++column) {
      sum += static_cast<double>(matrix.data[row * matrix.row_step + column * matrix.column_step]);
    }
    sums[static_cast<size_t>(row)] = static_cast<float>(sum);
  }
  return sums;
}

template <typename Numbers>
bool AllFinite(const Numbers& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](auto x) { return std::isfinite(x); });
}

/// Solves A d = r for A = R R^T, R upper triangular; `d` has r and receives the solution.
void Solve(const std::vector<double>& factor, std::vector<double>& d) {
  const size_t k = d.size();
  for (size_t i = k; i-- > 0;) {
    const double* row = factor.data() + i * k;
    d[i] = (d[i] - Dot(row + i + 1, d.data() + i + 1, k - i - 1)) / row[i];
  }
  for (size_t i = 0; i < k; ++i) {
    d[i] /= factor[i * k + i];
    for (size_t j = i + 1; j < k; ++j) d[j] -= factor[i * k + j] * d[i];
  }
}

class SequentialRounding : public BlockJob {
 public:
  explicit SequentialRounding(const RecoveryContext& context)
      : BlockJob(context, &LayersAsBlocks, "layers", 0) {}

 private:
  void Look(const Block& block, size_t sample, const Values& real) override {
    if (Judges(sample) || !Works(block)) return;
    const Node& node = *block.layers[0];
    LayerMath& math = *simulator_.Math(&node);
    const WeightMatrix& view = math.view();
    sums_.resize(static_cast<size_t>(view.groups));
    const Tensor& y = real.at(node.outputs[0]);
    math.VisitPixels(InputOnGrid(block, sample), y, [&](const LayerPixels& seen) {
      const auto [group, pixels, x, out] = seen;
      const int64_t rows = view.rows_per_group(), k = view.k;
      const MatrixView transposed{x.data, x.column_step, x.row_step};
      std::vector<float> products(static_cast<size_t>(rows * k));
      Gemm(rows, k, pixels, out, transposed, products.data(), k, false);
      GroupSums& sums = sums_[static_cast<size_t>(group)];
      AddSquares(x, k, pixels, made_, sums.squares);
      AddTo(sums.products, products);
      AddTo(sums.inputs, RowSums(x, k, pixels));
      AddTo(sums.outputs, RowSums(out, rows, pixels));
      if (group == 0) pixels_ += static_cast<double>(pixels);
    });
  }

  void Begin(const Block&) override {}
  void Iterate(const Block&) override {}

  void End(const Block& block) override {
    if (!Works(block) || sums_.empty() || pixels_ < 1) return Forget();
    const Node& node = *block.layers[0];
    TensorQuantizationConfig& config = ConfigOf(node);
    const bool has_bias = BiasSlot(node, OperatorOf(node).rule) >= 0;
    const Tensor integers = config.baked;
    std::vector<double>& bias = context_.biases.at(node.name);
    const std::vector<double> old_bias = bias;
    const double before = HeldOutLoss(block);
    Tensor rounded = Rounded(node, config, has_bias, bias);
    if (rounded.empty()) return Forget();
    config.baked = std::move(rounded);
    simulator_.SetWeights(&node, &bias);
    const bool improved = HeldOutLoss(block) < before;
    Count(improved);
    if (!improved) {
      config.baked = integers;
      bias = old_bias;
      simulator_.SetWeights(&node, &bias);
    }
    Forget();
  }

  void Forget() {
    sums_.clear();
    pixels_ = 0;
  }

  const OperatorQuantization& OperatorOf(const Node& node) const {
    return context_.record.operators.at(node.name);
  }
  TensorQuantizationConfig& ConfigOf(const Node& node) const {
    const OperatorQuantization& op = OperatorOf(node);
    return context_.record
        .configs[static_cast<size_t>(op.inputs[static_cast<size_t>(WeightSlot(node, op.rule))])];
  }

  bool Works(const Block& block) {
    if (block.layers.size() != 1) return false;
    const Node& node = *block.layers[0];
    const WeightMatrix& view = simulator_.Math(&node)->view();
    return !node.Is(Op::kConvTranspose) && !ConfigOf(node).exotic_weight() &&
           view.k <= kMostInputs && view.groups * view.k * view.k <= kMostSquares;
  }

  /// Computes the input that the quantized layer reads.
  Tensor InputOnGrid(const Block& block, size_t sample) {
    const Node& node = *block.layers[0];
    Values values = grid_[sample];
    RunTo(block, &node, values);
    const Tensor& x = values.at(node.inputs[0]);
    const TensorQuantizationConfig* grid = simulator_.ReadGrid(node, 0);
    return grid ? FakeQuantizeTensor(x, *grid) : x;
  }

  /// The integers of the layer; `bias` receives what goes with them. Empty, with `bias` as it was,
  /// if the sums have overflowed.
  Tensor Rounded(const Node& node, const TensorQuantizationConfig& config, bool has_bias,
                 std::vector<double>& bias) {
    const WeightMatrix& view = simulator_.Math(&node)->view();
    const Tensor& weights = node.inputs[1]->constant;
    Tensor fitted = weights.Clone();
    std::vector<Lattice> lattices;
    for (int64_t group = 0; group < view.groups; ++group) {
      lattices.push_back(Fit(view, group, has_bias, fitted.data<float>()));
    }
    if (!AllFinite(fitted.values<float>())) return {};
    Tensor integers = QuantizeParameter(fitted, config);
    LayerNoise noise;
    for (int64_t group = 0; group < view.groups; ++group) {
      RoundOnLattice(fitted, view, group, lattices[static_cast<size_t>(group)], config, integers,
                     noise);
    }
    if (!has_bias) return integers;
    std::vector<double> made(static_cast<size_t>(view.rows));
    for (int64_t row = 0; row < view.rows; ++row) {
      const int64_t group = row / view.rows_per_group(), own = row % view.rows_per_group();
      const GroupSums& sums = sums_[static_cast<size_t>(group)];
      double total = sums.outputs[static_cast<size_t>(own)];
      const double scale = config.ScaleOfRow(row);
      for (int64_t i = 0; i < view.k; ++i) {
        const double q =
            static_cast<double>(integers.AsInt64(view.At(row, i)) - config.OffsetOfRow(row));
        total -= q * scale * sums.inputs[static_cast<size_t>(i)];
      }
      made[static_cast<size_t>(row)] = total / pixels_;
    }
    if (!AllFinite(made)) return {};
    bias = std::move(made);
    return integers;
  }

  /// Replaces the weights of one group by those of least squares; returns the lattice on which they
  /// round.
  Lattice Fit(const WeightMatrix& view, int64_t group, bool centered, float* weights) {
    GroupSums& sums = sums_[static_cast<size_t>(group)];
    const auto k = static_cast<size_t>(view.k);
    const auto rows = static_cast<size_t>(view.rows_per_group());
    Mirror(sums.squares, k);
    for (double& value : sums.squares) value /= pixels_;
    for (double& value : sums.products) value /= pixels_;
    for (size_t i = 0; i < k && centered; ++i) {
      const double mean = sums.inputs[i] / pixels_;
      for (size_t j = 0; j < k; ++j) sums.squares[i * k + j] -= mean * sums.inputs[j] / pixels_;
      for (size_t row = 0; row < rows; ++row) {
        sums.products[row * k + i] -= mean * sums.outputs[row] / pixels_;
      }
    }
    Lattice lattice = MakeLattice(sums.squares, k, pixels_);
    if (lattice.factor.empty()) return lattice;
    std::vector<double> row_weights(k), gap(k);
    for (size_t row = 0; row < rows; ++row) {
      const int64_t at = group * view.rows_per_group() + static_cast<int64_t>(row);
      for (size_t i = 0; i < k; ++i) {
        row_weights[i] = static_cast<double>(weights[view.At(at, static_cast<int64_t>(i))]);
      }
      for (size_t i = 0; i < k; ++i) {
        const size_t from = lattice.order[i];
        gap[i] = sums.products[row * k + from] -
                 Dot(sums.squares.data() + from * k, row_weights.data(), k);
      }
      Solve(lattice.factor, gap);
      for (size_t i = 0; i < k; ++i) {
        const auto column = static_cast<int64_t>(lattice.order[i]);
        weights[view.At(at, column)] += static_cast<float>(gap[i]);
      }
    }
    return lattice;
  }

  std::vector<GroupSums> sums_;
  double pixels_ = 0;  // pixels of the sums
  std::vector<float> made_;
};

}  // namespace

std::unique_ptr<RecoveryJob> MakeSequentialRounding(const RecoveryContext& context) {
  return std::make_unique<SequentialRounding>(context);
}

}  // namespace requant

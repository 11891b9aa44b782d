// A layer's weights on their way to integers, and what methods of kRound and kCorrect do to them.
#pragma once

#include <vector>

#include "ir/graph.h"
#include "quant/config/settings.h"
#include "quant/config/tensor_quantization_config.h"
#include "quant/observers/moments.h"

namespace requant {

/// Expected power of a layer's outputs and of the errors that its weights cause in them, without
/// and with a method, summed over the rows.
struct LayerNoise {
  double signal = 0, before = 0, after = 0;
  double Decibels(double noise) const;
};

struct LayerWeights {
  const Tensor& weights;
  const InputMoments& inputs;  // of at least one sample
  /// Has its scales. A method of kRound leaves the integers in `baked`; one of kCorrect finds them
  /// there.
  TensorQuantizationConfig& config;
  std::vector<double>& bias;  // has one number per row, or none
  double unit = 0;            // of scales with simple multipliers (SimplifyMultipliers); 0: none
  /// Whether a method of kCorrect follows, so that the mean of the error does not count.
  bool centered = false;
};

/// A lattice decides one weight of a row after the other.
struct Lattice {
  std::vector<size_t> order;   // of the weights
  std::vector<double> factor;  // R, upper triangular, in that order; empty for constant inputs
};

/// The lattice of the second moments C, k x k, of `seen` inputs. Few inputs leave some directions
/// unseen, so the factor R R^T is that of a matrix that shrinks towards its diagonal, the more the
/// fewer inputs there were (in the spirit of Ledoit and Wolf 2004), with 1 % of the mean variance
/// on top of it.
Lattice MakeLattice(const std::vector<double>& moments, size_t k, double seen);

/// Rounds the rows of one group with error feedback; a row that is not better for it stays as it
/// is in `integers`, rounded to nearest. `noise` receives the errors of both.
void RoundOnLattice(const Tensor& weights, const WeightMatrix& view, int64_t group,
                    const Lattice& lattice, const TensorQuantizationConfig& config,
                    Tensor& integers, LayerNoise& noise);

/// Chooses integer weights for the scales of `config` that keep the layer's outputs, rather than
/// each weight, close to the float ones. Minimizes, row by row, the expected squared output error
///   d^T C d   with d = w_q * s - w and C the (co)variance of the layer's inputs.
/// With `centered` the mean of the error is corrected elsewhere (bias correction), so C is the
/// covariance. Deterministic. `noise` receives the error compared with rounding to nearest.
Tensor RoundWeights(const Tensor& weights, const InputMoments& moments,
                    const TensorQuantizationConfig& config, bool centered,
                    LayerNoise* noise = nullptr);

/// Widens the steps of rows, by up to some hundredths, so that RoundWeights() comes closest: tries
/// some scales for every row, fewer for longer rows. Multiples of `unit`, if it is not 0
/// (SimplifyMultipliers), remain multiples. For one scale for each row, 6 bits and more.
void RefineScales(const Tensor& weights, const InputMoments& moments, bool centered, double unit,
                  TensorQuantizationConfig& config);

/// The mean shift of every output channel that the rounding of its weights causes: sum_k d_k
/// E[x_k]. Subtracting it from the bias removes it (Nagel et al. 2019, "Data-Free Quantization
/// Through Weight Equalization and Bias Correction", section 4.2, here with measured means).
/// `noise` receives what that removes, inputs taken as independent.
std::vector<double> MeanShift(const Tensor& weights, const Tensor& integers,
                              const InputMoments& moments, const TensorQuantizationConfig& config,
                              LayerNoise* noise = nullptr);

/// The signal to noise ratio of an output channel's weights on their grid, in dB, averaged over all
/// channels of all layers, which rewriting the network is to raise (weights_noise.cpp).
double WeightsSnr(const Graph& graph, const QuantizeOptions& options);

}  // namespace requant

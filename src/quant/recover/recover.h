// Recovers accuracy without training.
#pragma once

#include <vector>

#include "quant/config/tensor_quantization_config.h"
#include "quant/observers/moments.h"
#include "quant/recover/recovery.h"

namespace requant {

/// Expected power of a layer's outputs and of the errors that its weights cause in them, without
/// and with a method, summed over the rows.
struct LayerNoise {
  double signal = 0, before = 0, after = 0;
  double Decibels(double noise) const;
};

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

}  // namespace requant

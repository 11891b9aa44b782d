// Quantizes parameters: weights, biases, constant operands.
#pragma once

#include <cstdint>
#include <vector>

#include "ir/graph.h"
#include "quant/config/record.h"
#include "quant/grid/weight_matrix.h"

namespace requant {

class InputMoments;

/// Sets scales for the weights, per row or one for all, by the config's observer (minmax,
/// percentile, mse over the weights), and zero points where the grid is affine. Then raises scales
/// where the integer arithmetic needs it:
/// - the multiplier s_in * s_w / s_out of a row must not be below 2^-20.5, or 2^-13.5 for a row
///   without weights (below 1e-8 of the layer's largest), so that one common shift serves all
///   channels of the vector kernels; both bounds are no powers of two, so that they make no ties;
/// - |bias| / (s_in * s_w) must not exceed 2^30.
/// With output_scale 0 the accumulators become floats, and the first bound does not hold. `bias` is
/// one number per row or empty. With `inputs`, observer "auto" weighs the errors of weights by the
/// mean squares of their inputs. Sets config.scale and config.offset.
void ScaleWeights(const Tensor& weights, const WeightMatrix& view, double input_scale,
                  double output_scale, const std::vector<double>& bias,
                  TensorQuantizationConfig& config, const InputMoments* inputs = nullptr);

/// Raises given scales where the integer arithmetic needs it, as ScaleWeights does. Zero points
/// stay: a grid with a wider step still holds its range.
void RaiseScales(const WeightMatrix& view, double input_scale, double output_scale,
                 const std::vector<double>& bias, TensorQuantizationConfig& config);

/// The bias as one number per row; empty for a node without bias.
std::vector<double> ReadBias(const Tensor* bias, int64_t rows);

/// Bakes the bias (passive.cpp): integers at scale s_in * s_w, zero point 0. Sets scale, offset and
/// baked. Without bias, or for an input with several scales, it stays in float.
void BakeBias(const std::vector<double>& bias, const std::vector<float>& input_scale,
              const TensorQuantizationConfig& weights, TensorQuantizationConfig& config);
/// The most that a bias in int32 may be so that the products of `rows` rows fit beside it, however
/// they are added: all of int32 but twice the largest sum of products, and at least half of it.
/// `weights` are baked.
double MostBias(const TensorQuantizationConfig& weights, const TensorQuantizationConfig& input,
                size_t rows);
/// Bakes everything else whose scale follows from others (passive.cpp): Concat's constants, pad
/// values. Clip bounds become PASSIVE (they are written where they are used).
void BakePassive(const Graph& graph, QuantizationRecord& record);

}  // namespace requant

// Weights of 7 bits instead of 8 in as many layers as the network's outputs permit.
//
//   Products of whole bytes are exact on some processors only (AVX-VNNI, ARM); others multiply
//   7-bit weights up to twice as fast as 8-bit ones. A layer's errors in its own outputs have the
//   power N = N_x + N_w of its input's and its weights' codes; a bit less raises N_w four times,
//   which N_x may hide. So layers are ordered by
//     10 log10((N_x + N_w of 7 bits) / (N_x + N_w of 8 bits)),
//   and bisection finds how many of the first of them may have 7 bits at once: the ratio of signal
//   to errors of the network's outputs, measured on kept samples, falls by at most the option
//   narrowWeights.
//   This comes after methods that keep operators in float: without the errors that they remove,
//   those of the weights count for more.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ir/graph.h"
#include "quant/config/tensor_quantization_config.h"
#include "quant/grid/weight_matrix.h"
#include "quant/recover/recovery.h"

namespace requant {

/// Whether the layer has weights of 8 bits that could have 7, and is not depthwise: those layers
/// are not faster for it. `weights` have a symmetric grid that nobody gave.
bool MayBeNarrow(const WeightMatrix& view, const TensorQuantizationConfig& input,
                 const TensorQuantizationConfig& weights);

/// The same config with the codes -63..63.
TensorQuantizationConfig Narrow(TensorQuantizationConfig weights);

/// N_x, summed over the rows: the squares of the weights times the variance of rounding, a twelfth
/// of a step squared. Half of an input that is never negative is taken to be 0, which has a code of
/// its own.
double InputNoise(const Tensor& weights, const WeightMatrix& view,
                  const TensorQuantizationConfig& input);

/// The other form of a layer.
struct NarrowLayer {
  std::string node;
  int config = -1;                   // index in the record, of the weights
  double loss = 0;                   // dB, in the layer's own outputs
  double most_loss = 0;              // dB, of the option: in the network's outputs
  TensorQuantizationConfig weights;  // with its integers
  std::vector<double> bias;
};

/// Which of the layers, at least one, that `context` offers get weights of 7 bits. They have their
/// integers of 8 bits in the record. At least one sample must be kept.
std::unique_ptr<RecoveryJob> MakeNarrowWeights(const RecoveryContext& context);

}  // namespace requant

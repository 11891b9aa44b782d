// Weights of 7 bits instead of 8 in as many layers as the network's outputs permit.
//
//   Products of whole bytes are exact on some processors only (AVX-VNNI, ARM); others multiply
//   7-bit weights up to twice as fast as 8-bit ones. A layer's errors in its own outputs have the
//   power N = N_x + N_w of its input's and its weights' codes; a bit less raises N_w four times,
//   which N_x may hide. So layers are ordered by
//     10 log10((N_x + N_w of 7 bits) / (N_x + N_w of 8 bits)),
//   and bisection finds how many of the first of them may have 7 bits at once. A trial measures how
//   many dB the ratio of signal to errors falls in the network's outputs, for each kept sample. The
//   mean over the samples plus one standard error must not exceed the option narrowWeights.
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

/// Returns the config with 7 bits: its codes are -63..63, and with fullRange -64..63.
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

/// Makes the job that decides which layers of `context.narrow` get weights of 7 bits. The list must
/// have at least one layer, the record the integers of 8 bits, and `context.samples` a sample.
std::unique_ptr<RecoveryJob> MakeNarrowWeights(const RecoveryContext& context);

}  // namespace requant

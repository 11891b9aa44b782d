#pragma once

#include <cstdint>

namespace requant {

enum class TrainOptimizer : uint8_t {
  /// Relative to the grid of what learns: an update moves weights by about `rate` of their grid's
  /// step, since folded normalization makes weights of any size and finer grids ask for smaller
  /// changes (Adafactor is relative to the weights: Shazeer and Stern 2018, arXiv 1804.04235).
  /// Decoupled weight decay (Loshchilov and Hutter 2019, arXiv 1711.05101).
  kAdam,
  kSgd,  // with momentum; weight decay is part of the gradient
};

/// Where the scales of grids come from while the network learns.
enum class TrainScales : uint8_t {
  kLearn,    // they are parameters (LSQ: Esser et al. 2020, arXiv 1902.08153)
  kObserve,  // weights: their range in every step; activations: a moving average of the batches'
  kKeep,     // they stay as they were calibrated
};

enum class TrainLoss : uint8_t {
  kScores,  // outputs [rows, classes] are scores: cross entropy with labels and the float network
  kValues,  // squared error against the float network
};

struct TrainOptions {
  TrainOptimizer optimizer = TrainOptimizer::kAdam;
  double momentum = 0.9;    // of SGD, [0, 1)
  double weight_decay = 0;  // of weights, not of biases and scales
  TrainScales scales = TrainScales::kLearn;
  /// Rate of the logarithms of scales, as a multiple of the learning rate; less for finer grids.
  double scale_rate = 1;
  /// Convolutions are normalized by the statistics of the batch until Freeze().
  bool batch_norm = true;
  /// So many batches only measure what layers put out: in the beginning in float and on their
  /// grids, and on their grids again before the normalization ends.
  int64_t measured_batches = 1;
  TrainLoss loss = TrainLoss::kScores;
  /// Of kScores: the part of the loss that comes from the labels, where there are any; the rest
  /// compares with the float network (Hinton et al. 2015, arXiv 1503.02531).
  double label_share = 0.5;
};

}  // namespace requant

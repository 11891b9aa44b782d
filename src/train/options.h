#pragma once

#include <cstdint>

namespace requant {

enum class TrainOptimizer : uint8_t {
  /// Adam, relative to the grid of the parameter: an update moves weights by about `rate` steps of
  /// their grid, since folded normalization makes weights of any size and finer grids need smaller
  /// changes (Adafactor is relative to the weights: Shazeer and Stern 2018, arXiv 1804.04235).
  /// Weight decay is decoupled (Loshchilov and Hutter 2019, arXiv 1711.05101).
  kAdam,
  kSgd,  // SGD with momentum; weight decay is part of the gradient
};

/// The source of the grids' scales during training.
enum class TrainScales : uint8_t {
  kLearn,    // scales are parameters (LSQ: Esser et al. 2020, arXiv 1902.08153)
  kObserve,  // weights: their range in every step; activations: a moving average over batches
  kKeep,     // scales stay as calibrated
};

enum class TrainLoss : uint8_t {
  // outputs [rows, classes] are scores: cross entropy with labels and with the float network
  kScores,
  kValues,  // squared error against the float network
};

struct TrainOptions {
  TrainOptimizer optimizer = TrainOptimizer::kAdam;
  double momentum = 0.9;    // of SGD, in [0, 1)
  double weight_decay = 0;  // applies to weights, not to biases and scales
  TrainScales scales = TrainScales::kLearn;
  /// Rate of the logarithms of scales, as a multiple of the learning rate; finer grids reduce it.
  double scale_rate = 1;
  /// Normalize convolutions by the statistics of the batch until Freeze().
  bool batch_norm = true;
  /// Number of batches that only measure layers' outputs: at the start in float and on their grids,
  /// and before the normalization ends on their grids once more.
  int64_t measured_batches = 1;
  TrainLoss loss = TrainLoss::kScores;
  /// For kScores: the share of the loss that comes from labels, if a sample has one; the rest
  /// compares with the float network (Hinton et al. 2015, arXiv 1503.02531).
  double label_share = 0.5;
};

}  // namespace requant

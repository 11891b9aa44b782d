#pragma once

#include <cstdint>
#include <string_view>

#include "base/parallel.h"

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

/// The statistics that fold a normalization into weights while it learns (train/batch_norm.h).
enum class TrainFold : uint8_t {
  kRunning,  // a moving average over batches
  kBatch,    // those of the batch itself; the running ones for the deployed layer
};

enum class TrainLoss : uint8_t {
  // outputs [rows, classes] are scores: cross entropy with labels and with the float network
  kScores,
  kValues,  // squared error against the float network
};

/// Parses the names that options.cpp lists; returns false for other names.
bool ParseName(std::string_view name, TrainOptimizer* optimizer);
bool ParseName(std::string_view name, TrainScales* scales);
bool ParseName(std::string_view name, TrainLoss* loss);
bool ParseName(std::string_view name, TrainFold* fold);

/// The options of a Trainer; options.inc says what they mean.
struct TrainOptions {
  /// Threads, which outlive the Trainer; null: one. Results have the same bits with any number.
  ParallelRunner* runner = nullptr;
#define REQUANT_TRAIN_OPTION(type, field, name, standard) type field = standard;
#include "train/options.inc"
};

}  // namespace requant

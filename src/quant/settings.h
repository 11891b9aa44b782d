#pragma once

#include <map>
#include <string>
#include <vector>

namespace requant {

/// How one kind of tensor is quantized.
struct TensorSettings {
  int bits = 8;  // 2..8
  bool symmetric = false;
  bool per_channel = false;  // weights only
  /// "minmax", "moving_average", "percentile" or "mse"; weights: all but "moving_average".
  std::string observer = "minmax";
  /// Share of all values inside the range, in percent: (0, 100].
  double percentile = 99.99;
  /// Of the moving average: m * old + (1 - m) * new, in [0, 1).
  double momentum = 0.95;
  bool power_of_2 = false;
};

struct OperatorSettings {
  bool quantize = true;
  /// Asymmetric uint8 per tensor; symmetric means int8 with zero point 0.
  TensorSettings activations = {};
  /// Symmetric int8 per output channel, [-127, 127] for 8 bits and [-63, 63] for 7.
  TensorSettings weights = {.symmetric = true, .per_channel = true};
};

struct QuantizeOptions {
  OperatorSettings global = {};
  std::map<std::string, OperatorSettings> by_type = {};  // op type
  std::map<std::string, OperatorSettings> by_name = {};  // exact node name; wins over by_type
  /// "round_weights" and "bias_correction", in any order; empty = none.
  std::vector<std::string> recover = {"round_weights", "bias_correction"};
};

}  // namespace requant

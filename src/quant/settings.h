#pragma once

#include <map>
#include <string>
#include <vector>

#include "quant/tensor_quantization_config.h"

namespace requant {

/// How one kind of tensor is quantized.
struct TensorSettings {
  int bits = 8;  // 2..32; more than 8 are simulated in float
  bool symmetric = false;
  /// For weights: one scale per output channel. For activations: one per channel of `axis`,
  /// simulated in float.
  bool per_channel = false;
  int axis = -1;  // channel axis of activations; -1 means 1
  /// A name of ObserverTable(); "auto" tries several and keeps the one of least output error.
  std::string observer = "minmax";
  /// Share of all values inside the range, in percent: (0, 100].
  double percentile = 99.99;
  /// For the moving average: m * old + (1 - m) * new, in [0, 1).
  double momentum = 0.95;
  /// For the moving average: the number of samples after which it is frozen; 0: never.
  int64_t stop_after = 0;
  bool power_of_2 = false;
  RoundingPolicy rounding = RoundingPolicy::kHalfEven;
  ScaleFormula formula = ScaleFormula::kOnnx;
  /// For symmetric integers: use the lowest code as well, [-128, 127].
  bool full_range = false;
  /// For asymmetric activations: int8 instead of uint8.
  bool is_signed = false;
  /// Exponent and mantissa bits of a small float (EXPONENTIAL), {4, 3} or {5, 2}; {0, 0}: integers.
  SmallFloat small_float = {0, 0};
};

struct OperatorSettings {
  bool quantize = true;
  /// A layer without an activation of its own writes its accumulators as floats, whoever reads
  /// them.
  bool float_output = false;
  /// Default: asymmetric uint8 per tensor; symmetric means int8 with zero point 0.
  TensorSettings activations = {};
  /// Default: symmetric int8 per output channel, [-127, 127] for 8 bits and [-63, 63] for 7.
  TensorSettings weights = {.symmetric = true, .per_channel = true};
};

/// A scale that was chosen elsewhere.
struct FixedScale {
  std::vector<float> scale;
  std::vector<int32_t> offset;  // empty: all 0
};

struct QuantizeOptions {
  OperatorSettings global = {};
  std::map<std::string, OperatorSettings> by_type = {};  // indexed by op type
  // indexed by exact node name; wins over by_type
  std::map<std::string, OperatorSettings> by_name = {};
  /// Scales by value name, in place of calibration. Unknown names become warnings.
  std::map<std::string, FixedScale> scales = {};
  /// Names of RecoveryTable(), in any order; may be empty.
  std::vector<std::string> recover = {"round_weights", "bias_correction"};
  /// The user named these methods, so one that finds nothing to work on is a warning.
  bool recover_named = false;
  /// For methods that learn: samples to keep for them, and steps of the optimizer for each block.
  int64_t recover_samples = 0;  // 0: 256
  int64_t recover_steps = 0;    // 0: the method's own
  /// Methods that choose what stays in float measure on few samples and fewer choices, for
  /// defaults, which should take seconds.
  bool quick_choices = false;
  /// Layers write floats where only float operators or the network's outputs read them, and
  /// operators without weights that make an output stay in float.
  bool float_outputs = false;
  bool analyze = false;  // set QuantizationRecord::analysis
};

}  // namespace requant

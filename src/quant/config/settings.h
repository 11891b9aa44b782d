#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "quant/config/tensor_quantization_config.h"

namespace requant {

/// Stands for a bound of codes that is not set.
inline constexpr int64_t kCodesOfBits = std::numeric_limits<int64_t>::min();
/// The observer of slots whose scale is given.
inline constexpr const char* kGiven = "given";

/// How one kind of tensor is quantized.
struct TensorSettings {
#define REQUANT_TENSOR_OPTION(type, field, name, standard) type field = standard;
#define REQUANT_OBSERVER_OPTION REQUANT_TENSOR_OPTION
#include "quant/options.inc"
};

/// A scale that was chosen elsewhere.
struct FixedScale {
  std::vector<float> scale;
  std::vector<int32_t> offset;  // empty: all 0
};

/// The options of one slot: settings that replace the operator's, and perhaps a scale that replaces
/// calibration.
struct SlotSettings {
#define REQUANT_TENSOR_OPTION(type, field, name, standard) std::optional<type> field = {};
#define REQUANT_OBSERVER_OPTION REQUANT_TENSOR_OPTION
#include "quant/options.inc"
  FixedScale given = {};  // without a scale the slot is calibrated

  /// These settings over those of the operator's activations or weights.
  TensorSettings Over(TensorSettings settings) const {
#define REQUANT_TENSOR_OPTION(type, field, name, standard) \
  if (field) settings.field = *(field);
#define REQUANT_OBSERVER_OPTION REQUANT_TENSOR_OPTION
#include "quant/options.inc"
    return settings;
  }
};

struct OperatorSettings {
  bool quantize = true;
#define REQUANT_OPERATOR_OPTION(type, field, name, standard) type field = standard;
#include "quant/options.inc"
  /// Default: asymmetric uint8 per tensor; symmetric means int8 with zero point 0.
  TensorSettings activations = {};
  /// Default: symmetric int8 per output channel, [-127, 127] for 8 bits and [-63, 63] for 7;
  /// asymmetric means uint8.
  TensorSettings weights = {.symmetric = true, .per_channel = true};
  /// The options of single slots, by their index. A slot that holds weights starts from `weights`,
  /// any other from `activations`. Scales are given to slots of operators by name only.
  std::map<int, SlotSettings> inputs = {};
  std::map<int, SlotSettings> outputs = {};
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
  /// Methods that choose what stays in float measure on few samples and fewer choices, for
  /// defaults, which should take seconds.
  bool quick_choices = false;
#define REQUANT_QUANTIZE_OPTION(type, field, name, standard) type field = standard;
#include "quant/options.inc"
  bool analyze = false;  // set QuantizationRecord::analysis

  /// The settings of an operator: those of its name, or else of its type, or else of all.
  const OperatorSettings& Of(const std::string& name, const std::string& type) const {
    if (const auto named = by_name.find(name); named != by_name.end()) return named->second;
    const auto typed = by_type.find(type);
    return typed != by_type.end() ? typed->second : global;
  }
  /// Whether layers may get weights of 7 bits.
  bool AsksForNarrow() const {
    const auto asks = [](const auto& named) { return named.second.narrow_weights > 0; };
    return global.narrow_weights > 0 || std::any_of(by_type.begin(), by_type.end(), asks) ||
           std::any_of(by_name.begin(), by_name.end(), asks);
  }
  /// Whether the scale of a slot is given, to the slot or to its value.
  bool Gives(const TensorQuantizationConfig& config) const {
    return config.observer == kGiven || scales.contains(config.value);
  }
};

}  // namespace requant

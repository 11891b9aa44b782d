// New values for slots of a quantized model, without calibration.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "quant/stages.h"

namespace requant {

/// The new values of one slot. A member without a value stays as it is.
struct SlotEdit {
  std::string node;
  bool is_output = false;
  int slot = 0;

  std::optional<int> bits = {};
  std::optional<int64_t> quant_min = {}, quant_max = {};
  std::optional<std::string> rounding = {}, policy = {};
  /// The range from which a scale is computed, where `scale` asks for it.
  std::optional<double> range_min = {}, range_max = {};
  /// Empty: the scale that follows from the range, or from the weights.
  std::optional<std::vector<float>> scale = {};
  std::optional<std::vector<int32_t>> offset = {};
  /// "DEQUANTIZED": the slot becomes float.
  std::optional<std::string> state = {};
};

/// Gives the slots these values and makes all integers anew that depend on them: weights and
/// constant operands of edited slots, biases of layers whose inputs or weights changed, pad values
/// and constants of Concats. Slots that another one decides for follow it. Everything else stays
/// the same bits. Rounds new integers of weights to the nearest, with a warning where recovery had
/// chosen others; a bias keeps its correction unless its weights changed.
///
/// Throws kInvalidArgument for a slot that does not exist, and kInvalidQuantization, naming
/// operator, slot and remedy, for values that a slot cannot have: see WhyNoCodes, WhyNoScales and
/// CheckPolicy; values of a slot that another one decides for, or whose scale follows from others
/// (biases); slots that are float; states other than DEQUANTIZED, which is of the output of a layer
/// that can write floats or of all slots of an operator.
void EditSlots(QuantizedModel& model, std::span<const SlotEdit> edits);

}  // namespace requant

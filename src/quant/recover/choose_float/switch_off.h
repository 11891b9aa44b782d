// Stops quantizing operators whose slots have scales.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quant/config/record.h"

namespace requant {

/// While it lives, all slots of these operators, and the result slots of these layers, are
/// DEACTIVATED: a Simulator computes them in float, and readers of their results use grids of their
/// own. Afterwards the states return.
class SwitchedOff {
 public:
  SwitchedOff(QuantizationRecord& record, std::span<const std::string> operators,
              std::span<const std::string> layers = {});
  ~SwitchedOff();
  SwitchedOff(const SwitchedOff&) = delete;
  SwitchedOff& operator=(const SwitchedOff&) = delete;

 private:
  QuantizationRecord& record_;
  std::vector<std::pair<int, QuantizationState>> states_;  // indexed by config
};

/// Makes the operator float for good, with `reason`. Its slots are DEQUANTIZED and keep their
/// scales, by which others may still read its results. Operators that it computes together with
/// others must be dequantized with it.
void Dequantize(QuantizationRecord& record, const std::string& name, const std::string& reason);

/// Makes the quantized layer write its accumulators as floats for good (HasFloatForm, without an
/// activation of its own).
void DequantizeResult(QuantizationRecord& record, const std::string& name);

}  // namespace requant

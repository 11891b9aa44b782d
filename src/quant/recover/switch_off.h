// Operators that stop being quantized after their slots have scales.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "quant/record.h"

namespace requant {

/// For as long as it lives, the slots of these operators are DEACTIVATED, and of these layers that
/// of the result: a Simulator computes them in float, and who reads their results still does so
/// through a grid of its own. Their states return afterwards.
class SwitchedOff {
 public:
  SwitchedOff(QuantizationRecord& record, std::span<const std::string> operators,
              std::span<const std::string> layers = {});
  ~SwitchedOff();
  SwitchedOff(const SwitchedOff&) = delete;
  SwitchedOff& operator=(const SwitchedOff&) = delete;

 private:
  QuantizationRecord& record_;
  std::vector<std::pair<int, QuantizationState>> states_;  // by config
};

/// The operator is float from now on, with `reason`; its slots are DEQUANTIZED and keep their
/// scales, by which others may still read its results. What it computes together with other
/// operators must be dequantized with it.
void Dequantize(QuantizationRecord& record, const std::string& name, const std::string& reason);

/// The quantized layer writes its accumulators as floats from now on (HasFloatForm, without an
/// activation of its own).
void DequantizeResult(QuantizationRecord& record, const std::string& name);

}  // namespace requant

#include "quant/recover/switch_off.h"

namespace requant {
namespace {

using States = std::vector<std::pair<int, QuantizationState>>;

/// The operator's slots go to `to`; `before` (nullptr: for good) learns where they were.
void SwitchSlots(QuantizationRecord& record, const OperatorQuantization& op, QuantizationState to,
                 States* before) {
  for (const std::vector<int>* slots : {&op.inputs, &op.outputs}) {
    for (const int index : *slots) {
      if (index < 0) continue;
      QuantizationState& state = record.configs[static_cast<size_t>(index)].state;
      if (IsQuantizing(state)) {
        if (before) before->emplace_back(index, state);
        Transit(state, to);
      } else if (!before && (state == QuantizationState::kInitial ||
                             state == QuantizationState::kPassiveInit)) {
        Transit(state, QuantizationState::kFp32);
      }
    }
  }
}

}  // namespace

SwitchedOff::SwitchedOff(QuantizationRecord& record, std::span<const std::string> operators)
    : record_(record) {
  for (const std::string& name : operators) {
    SwitchSlots(record_, record_.operators.at(name), QuantizationState::kDeactivated, &states_);
  }
}

SwitchedOff::~SwitchedOff() {
  for (const auto& [index, state] : states_) {
    record_.configs[static_cast<size_t>(index)].state = state;
  }
}

void Dequantize(QuantizationRecord& record, const std::string& name, const std::string& reason) {
  OperatorQuantization& op = record.operators.at(name);
  SwitchSlots(record, op, QuantizationState::kDequantized, nullptr);
  op.quantized = false;
  op.reason = reason;
  op.activation.clear();
  op.absorbed_by.clear();
  op.table.clear();
}

}  // namespace requant

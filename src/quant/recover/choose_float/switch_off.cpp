#include "quant/recover/choose_float/switch_off.h"

namespace requant {
namespace {

using States = std::vector<std::pair<int, QuantizationState>>;

/// Moves the slots to state `to`. `before`, if not nullptr, receives their previous states.
void SwitchSlots(QuantizationRecord& record, const std::vector<int>& slots, QuantizationState to,
                 States* before) {
  for (const int index : slots) {
    if (index < 0) continue;
    QuantizationState& state = record.configs[static_cast<size_t>(index)].state;
    if (IsQuantizing(state)) {
      if (before) before->emplace_back(index, state);
      Transit(state, to);
    } else if (!before &&
               (state == QuantizationState::kInitial || state == QuantizationState::kPassiveInit)) {
      Transit(state, QuantizationState::kFp32);
    }
  }
}

}  // namespace

SwitchedOff::SwitchedOff(QuantizationRecord& record, std::span<const std::string> operators,
                         std::span<const std::string> layers)
    : record_(record) {
  const auto off = [this](const std::vector<int>& slots) {
    SwitchSlots(record_, slots, QuantizationState::kDeactivated, &states_);
  };
  for (const std::string& name : operators) {
    off(record_.operators.at(name).inputs);
    off(record_.operators.at(name).outputs);
  }
  for (const std::string& name : layers) off(record_.operators.at(name).outputs);
}

SwitchedOff::~SwitchedOff() {
  for (const auto& [index, state] : states_) {
    record_.configs[static_cast<size_t>(index)].state = state;
  }
}

void Dequantize(QuantizationRecord& record, const std::string& name, const std::string& reason) {
  OperatorQuantization& op = record.operators.at(name);
  for (const std::vector<int>* slots : {&op.inputs, &op.outputs}) {
    SwitchSlots(record, *slots, QuantizationState::kDequantized, nullptr);
  }
  op.quantized = false;
  op.float_output = false;
  op.reason = reason;
  op.activation.clear();
  op.absorbed_by.clear();
  op.table.clear();
}

void DequantizeResult(QuantizationRecord& record, const std::string& name) {
  OperatorQuantization& op = record.operators.at(name);
  SwitchSlots(record, op.outputs, QuantizationState::kDequantized, nullptr);
  op.float_output = true;
}

}  // namespace requant

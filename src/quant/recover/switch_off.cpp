#include "quant/recover/switch_off.h"

namespace requant {
namespace {

/// Calls body(index of the config) for every slot of the operator.
template <typename Body>
void ForSlots(const OperatorQuantization& op, Body body) {
  for (const std::vector<int>* slots : {&op.inputs, &op.outputs}) {
    for (const int index : *slots) {
      if (index >= 0) body(index);
    }
  }
}

}  // namespace

SwitchedOff::SwitchedOff(QuantizationRecord& record, std::span<const std::string> operators)
    : record_(record) {
  for (const std::string& name : operators) {
    ForSlots(record_.operators.at(name), [&](int index) {
      TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
      if (!IsQuantizing(config.state)) return;
      states_.emplace_back(index, config.state);
      Transit(config.state, QuantizationState::kDeactivated, name);
    });
  }
}

SwitchedOff::~SwitchedOff() {
  for (const auto& [index, state] : states_) {
    record_.configs[static_cast<size_t>(index)].state = state;
  }
}

void Dequantize(QuantizationRecord& record, const std::string& name, const std::string& reason) {
  OperatorQuantization& op = record.operators.at(name);
  ForSlots(op, [&](int index) {
    TensorQuantizationConfig& config = record.configs[static_cast<size_t>(index)];
    if (IsQuantizing(config.state)) {
      Transit(config.state, QuantizationState::kDequantized, name);
    } else if (config.state == QuantizationState::kInitial ||
               config.state == QuantizationState::kPassiveInit) {
      Transit(config.state, QuantizationState::kFp32, name);
    }
  });
  op.quantized = false;
  op.reason = reason;
  op.activation.clear();
  op.absorbed_by.clear();
  op.table.clear();
}

}  // namespace requant

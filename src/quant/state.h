// The life of a quantization config. Executor and exporters read only the state; who changes it
// goes through Transit(), which knows the one table of legal steps.
#pragma once

#include <cstdint>
#include <string_view>

namespace requant {

/// PPQ's QuantizationStates (ppq/core/quant.py).
enum class QuantizationState : uint8_t {
  kInitial,       // has a policy, no scale yet
  kBaked,         // a parameter whose integers are stored in the config
  kOverlapped,    // another config decides: see dominator
  kDeactivated,   // switched off for now (error analysis); remembers nothing else
  kActivated,     // scale and offset are valid
  kDequantized,   // switched off by the user after it was active; can come back
  kSoi,           // shape or index: never quantized
  kPassive,       // scale follows from other configs and is known (bias, clip bound, pad value)
  kPassiveInit,   // the same, before the others are known
  kPassiveBaked,  // passive, integers stored
  kFp32,          // stays float for good
};
inline constexpr int kQuantizationStates = 11;

/// "INITIAL", "BAKED", ...
const char* StateName(QuantizationState state);
/// Whether a config may go from one state to the other. Staying is always legal.
bool CanTransit(QuantizationState from, QuantizationState to);
/// `state = to`, or kInvalidQuantization naming both states and `where`.
void Transit(QuantizationState& state, QuantizationState to, std::string_view where = {});
/// True for the states in which a tensor is really quantized (directly or by its dominator).
bool IsQuantizing(QuantizationState state);

}  // namespace requant

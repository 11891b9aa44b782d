// The life of a quantization config. The executor and exporters read only the state; changes go
// through Transit(), which knows the table of legal steps.
#pragma once

#include <cstdint>
#include <string_view>

namespace requant {

/// The states of PPQ's QuantizationStates (ppq/core/quant.py).
enum class QuantizationState : uint8_t {
  kInitial,       // has a policy, no scale yet
  kBaked,         // a parameter whose integers are stored in the config
  kOverlapped,    // another config decides (dominator)
  kDeactivated,   // temporarily switched off (error analysis); remembers nothing else
  kActivated,     // scale and offset are valid
  kDequantized,   // switched off by the user after it was active; can return
  kSoi,           // shape or index: never quantized
  kPassive,       // scale follows from other configs and is known (bias, clip bound, pad value)
  kPassiveInit,   // scale will follow from other configs that are not known yet
  kPassiveBaked,  // passive, integers stored
  kFp32,          // stays float for good
};
inline constexpr int kQuantizationStates = 11;

/// The state's name: "INITIAL", "BAKED", ...
const char* StateName(QuantizationState state);
/// Whether a config may go from one state to the other. Staying is always legal.
bool CanTransit(QuantizationState from, QuantizationState to);
/// Sets `state` to `to`, or throws kInvalidQuantization naming both states and `where`.
void Transit(QuantizationState& state, QuantizationState to, std::string_view where = {});
/// Whether a tensor in this state is really quantized (by its config or by the dominator).
bool IsQuantizing(QuantizationState state);

}  // namespace requant

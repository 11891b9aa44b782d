#include "quant/config/state.h"

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

using S = QuantizationState;

constexpr uint32_t Bit(S state) { return 1u << static_cast<unsigned>(state); }

struct StateRow {
  S state;
  const char* name;
  uint32_t next;  // the states that may follow
};

// The table of legal transitions. SOI and FP32 are final; a config that was switched off
// (DEACTIVATED, DEQUANTIZED) returns only to a state in which it quantizes.
constexpr StateRow kStates[] = {
    {S::kInitial, "INITIAL",
     Bit(S::kActivated) | Bit(S::kOverlapped) | Bit(S::kPassiveInit) | Bit(S::kSoi) |
         Bit(S::kFp32)},
    {S::kBaked, "BAKED", Bit(S::kActivated) | Bit(S::kDeactivated) | Bit(S::kDequantized)},
    {S::kOverlapped, "OVERLAPPED", Bit(S::kDeactivated) | Bit(S::kDequantized) | Bit(S::kFp32)},
    {S::kDeactivated, "DEACTIVATED",
     Bit(S::kActivated) | Bit(S::kBaked) | Bit(S::kOverlapped) | Bit(S::kPassive) |
         Bit(S::kPassiveBaked)},
    {S::kActivated, "ACTIVATED",
     Bit(S::kBaked) | Bit(S::kOverlapped) | Bit(S::kDeactivated) | Bit(S::kDequantized)},
    {S::kDequantized, "DEQUANTIZED",
     Bit(S::kActivated) | Bit(S::kBaked) | Bit(S::kOverlapped) | Bit(S::kPassive) |
         Bit(S::kPassiveBaked)},
    {S::kSoi, "SOI", 0},
    {S::kPassive, "PASSIVE", Bit(S::kPassiveBaked) | Bit(S::kDeactivated) | Bit(S::kDequantized)},
    {S::kPassiveInit, "PASSIVE_INIT", Bit(S::kPassive) | Bit(S::kOverlapped) | Bit(S::kFp32)},
    {S::kPassiveBaked, "PASSIVE_BAKED",
     Bit(S::kPassive) | Bit(S::kDeactivated) | Bit(S::kDequantized)},
    {S::kFp32, "FP32", 0},
};
static_assert(sizeof kStates / sizeof kStates[0] == kQuantizationStates);

constexpr bool RowsAreInOrder() {
  for (int i = 0; i < kQuantizationStates; ++i) {
    if (static_cast<int>(kStates[i].state) != i) return false;
  }
  return true;
}
static_assert(RowsAreInOrder());

const StateRow& Row(S state) { return kStates[static_cast<size_t>(state)]; }

}  // namespace

const char* StateName(QuantizationState state) { return Row(state).name; }

bool CanTransit(QuantizationState from, QuantizationState to) {
  return from == to || (Row(from).next & Bit(to)) != 0;
}

void Transit(QuantizationState& state, QuantizationState to, std::string_view where) {
  if (!CanTransit(state, to)) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("a quantization config cannot go from ", StateName(state), " to ", StateName(to),
                where.empty() ? "" : " at ", where));
  }
  state = to;
}

bool IsQuantizing(QuantizationState state) {
  switch (state) {
    case S::kBaked:
    case S::kOverlapped:
    case S::kActivated:
    case S::kPassive:
    case S::kPassiveBaked:
      return true;
    default:
      return false;
  }
}

}  // namespace requant

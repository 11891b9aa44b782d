#include "quant/config/policy.h"

#include <bit>

#include "base/error.h"
#include "base/str_cat.h"

namespace requant {
namespace {

struct PolicyName {
  QuantizationPolicy bit;
  const char* name;
};

constexpr PolicyName kPolicyNames[] = {
    {kPerTensor, "PER_TENSOR"},    {kPerChannel, "PER_CHANNEL"},  {kLinear, "LINEAR"},
    {kExponential, "EXPONENTIAL"}, {kSymmetrical, "SYMMETRICAL"}, {kAsymmetrical, "ASYMMETRICAL"},
    {kPowerOf2, "POWER_OF_2"},
};

struct Exclusion {
  QuantizationPolicy bits;  // flags that exclude one another
  const char* why;
};

constexpr Exclusion kExclusions[] = {
    {kExponential | kAsymmetrical, "a logarithmic grid has no zero point"},
    {kExponential | kPowerOf2, "an exponential grid already consists of powers of two"},
};

}  // namespace

std::string PolicyToString(QuantizationPolicy policy) {
  std::string out;
  for (const PolicyName& entry : kPolicyNames) {
    if ((policy & entry.bit) == 0) continue;
    if (!out.empty()) out += '|';
    out += entry.name;
  }
  return out.empty() ? "NONE" : out;
}

void CheckPolicy(QuantizationPolicy policy, std::string_view where) {
  const auto refuse = [&](const std::string& why) {
    Fail(ErrorCode::kInvalidQuantization,
         StrCat("quantization policy ", PolicyToString(policy), where.empty() ? "" : " of ", where,
                " is impossible: ", why),
         {.hint = "choose another combination of symmetric, perChannel and powerOf2"});
  };
  QuantizationPolicy known = 0;
  for (const PolicyName& entry : kPolicyNames) known |= entry.bit;
  if ((policy & ~known) != 0) refuse("it has unknown bits");
  constexpr QuantizationPolicy kChoices[] = {kPerTensor | kPerChannel, kLinear | kExponential,
                                             kSymmetrical | kAsymmetrical};
  for (const QuantizationPolicy choice : kChoices) {
    const int chosen = std::popcount(policy & choice);
    if (chosen == 0) refuse(StrCat("one of ", PolicyToString(choice), " is missing"));
    if (chosen > 1) refuse(StrCat(PolicyToString(choice), " exclude each other"));
  }
  for (const Exclusion& exclusion : kExclusions) {
    if ((policy & exclusion.bits) == exclusion.bits) {
      refuse(StrCat(PolicyToString(exclusion.bits), ": ", exclusion.why));
    }
  }
}

}  // namespace requant

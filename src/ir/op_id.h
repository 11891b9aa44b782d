// The identity of the operators that passes, the quantizer and the planner ask for: comparing two
// identities is comparing two numbers, and a misspelled name does not compile.
#pragma once

#include <cstdint>
#include <string_view>

namespace requant {

/// The domain of operators that only this engine has ("Lut", ...). The ONNX domain is "".
inline constexpr const char* kRequantDomain = "ai.requant";
inline constexpr const char* kMicrosoftDomain = "com.microsoft";

/// One for each row of ir/op_ids.inc: Op::kConv is "Conv" of the domain "".
enum class Op : uint8_t {
  kOther,  // every operator without a row
#define REQUANT_OP(name, domain) k##name,
#include "ir/op_ids.inc"
#undef REQUANT_OP
  kCount,
};

/// The identity of an operator; Op::kOther for a name or domain without a row.
Op OpId(std::string_view name, std::string_view domain);

/// The name and the domain of an identity other than kOther.
const char* OpName(Op op);
const char* OpDomain(Op op);

}  // namespace requant

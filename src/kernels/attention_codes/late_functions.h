#pragma once
// The late kernels of this family, for the list of all kernels, which is in the main module.

#include "base/late_function.h"
#include "kernels/attention_codes/kernel.h"

namespace requant {

extern const LateFunction<decltype(rq_code_tokens)> rq_code_tokens_late;
extern const LateFunction<decltype(rq_code_shares)> rq_code_shares_late;

}  // namespace requant

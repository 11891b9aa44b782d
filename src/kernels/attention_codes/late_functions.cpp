#include "kernels/attention_codes/late_functions.h"

namespace requant {

const LateFunction<decltype(rq_code_tokens)> rq_code_tokens_late{rq_code_tokens, "rq_code_tokens"};
const LateFunction<decltype(rq_code_shares)> rq_code_shares_late{rq_code_shares, "rq_code_shares"};

}  // namespace requant

#pragma once

#include "base/late_function.h"
#include "kernels/token_codes/table.h"
#include "plan/builder.h"

namespace requant {

/// Adds the step of `node` that copies slot `rows`, which grows, to slot `dense` of the same value.
void AddDenseCopy(PlanBuilder& builder, const Node& node, int rows, int dense);
extern const LateFunction<decltype(AddDenseCopy)> kAddDenseCopy;

/// Tokens [begin, end) of `rows` rows of a coded slot, from row `first` on, and their floats: token
/// `begin` of the first row is at `floats`, and that of the next row `stride` floats behind.
struct CodedTokens {
  TokenCodesOp op = TokenCodesOp::kDecode;
  int slot = -1;
  int64_t first = 0, rows = 0, begin = 0, end = 0, width = 0, stride = 0;
  float* floats = nullptr;
};
/// Writes the floats of the codes, or the codes of the floats, by a kernel for tokens.op.
void RecodeTokens(const RunContext& context, void (*run)(const TokenCodesParams*),
                  const CodedTokens& tokens);

}  // namespace requant

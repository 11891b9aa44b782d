#pragma once

#include "base/late_function.h"
#include "plan/builder.h"

namespace requant {

/// Adds the step of `node` that copies slot `rows`, which grows, to slot `dense` of the same value.
void AddDenseCopy(PlanBuilder& builder, const Node& node, int rows, int dense);
extern const LateFunction<decltype(AddDenseCopy)> kAddDenseCopy;

/// The floats of a coded slot's tokens, or a part of them: tokens [begin, end) of `rows` rows from
/// row `first` on. `floats` points to token `begin` of the first of these rows, and the next row's
/// is `stride` floats behind.
struct CodedTokens {
  int slot = -1;
  int64_t first = 0, rows = 0, begin = 0, end = 0, width = 0;
  float* floats = nullptr;
  int64_t stride = 0;
};
void DecodeTokens(const RunContext& context, const CodedTokens& tokens);
void EncodeTokens(const RunContext& context, const CodedTokens& tokens);

}  // namespace requant

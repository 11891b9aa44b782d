#pragma once

#include "base/late_function.h"
#include "ops/op.h"

namespace requant {

/// Equal of strings.
void EqualTexts(EvalContext& context);

// Among the extended operators.
extern const LateFunction<decltype(EqualTexts)> kEqualTexts;

}  // namespace requant

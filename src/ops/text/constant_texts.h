#pragma once

#include "base/late_function.h"
#include "ir/attribute.h"

namespace requant {

/// The value of a Constant with value_string or value_strings. Throws kInvalidModel for attributes
/// of other kinds.
Tensor ConstantTexts(const AttributeMap& attributes);

// Among the extended operators.
extern const LateFunction<decltype(ConstantTexts)> kConstantTexts;

}  // namespace requant

#include "ops/elementwise/equal_texts.h"
#include "ops/text/constant_texts.h"

namespace requant {

const LateFunction<decltype(EqualTexts)> kEqualTexts{EqualTexts, "EqualTexts"};
const LateFunction<decltype(ConstantTexts)> kConstantTexts{ConstantTexts, "ConstantTexts"};

}  // namespace requant

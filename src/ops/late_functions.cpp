#include "ops/elementwise/cast_loops.h"
#include "ops/elementwise/equal_texts.h"
#include "ops/elementwise/integer_loops.h"
#include "ops/text/constant_texts.h"

namespace requant {

const LateFunction<decltype(CastNumbers)> kCastNumbers{CastNumbers, "CastNumbers"};
const LateFunction<decltype(EqualTexts)> kEqualTexts{EqualTexts, "EqualTexts"};
const LateFunction<decltype(CombineIntegers)> kCombineIntegers{CombineIntegers, "CombineIntegers"};
const LateFunction<decltype(ConstantTexts)> kConstantTexts{ConstantTexts, "ConstantTexts"};

}  // namespace requant

#include "tensor/half.h"
#include "tensor/text.h"

namespace requant {

const LateFunction<decltype(Float8ToFloat)> kFloat8ToFloat{Float8ToFloat, "Float8ToFloat"};
const LateFunction<decltype(FloatToFloat8)> kFloatToFloat8{FloatToFloat8, "FloatToFloat8"};
const LateFunction<decltype(TextOf)> kTextOf{TextOf, "TextOf"};
const LateFunction<decltype(TextsOfNumbers)> kTextsOfNumbers{TextsOfNumbers, "TextsOfNumbers"};
const LateFunction<decltype(NumbersOfTexts)> kNumbersOfTexts{NumbersOfTexts, "NumbersOfTexts"};
const LateFunction<decltype(BeginTextRun)> kBeginTextRun{BeginTextRun, "BeginTextRun"};

}  // namespace requant

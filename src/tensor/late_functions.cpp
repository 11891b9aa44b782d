#include "tensor/half.h"

namespace requant {

const LateFunction<decltype(Float8ToFloat)> kFloat8ToFloat{Float8ToFloat, "Float8ToFloat"};
const LateFunction<decltype(FloatToFloat8)> kFloatToFloat8{FloatToFloat8, "FloatToFloat8"};

}  // namespace requant

#include "base/late_function.h"
#include "passes/match/normalization.h"

namespace requant {

const LateFunction<decltype(SimplifyNormalization)> kSimplifyNormalization{SimplifyNormalization,
                                                                           "SimplifyNormalization"};

}  // namespace requant

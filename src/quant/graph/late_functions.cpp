#include "base/late_function.h"
#include "quant/graph/prepare.h"

namespace requant {

const LateFunction<decltype(RaiseOpset)> kRaiseOpset{RaiseOpset, "RaiseOpset"};

}  // namespace requant

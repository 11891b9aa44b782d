// These functions have a file of their own, so that no compiler sees what they call (see
// api/late_functions.cpp).
#include "quant/graph/prepare.h"

namespace requant {

const RaiseFunction kRaiseOpset = RaiseOpset;

}  // namespace requant

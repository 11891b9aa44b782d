// A file of its own, so that no compiler sees what is called (api/late_functions.cpp).
#include "quant/prepare.h"

namespace requant {

const RaiseFunction kRaiseOpset = RaiseOpset;

}  // namespace requant

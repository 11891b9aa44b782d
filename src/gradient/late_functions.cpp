#include "gradient/late_functions.h"

namespace requant::gradient {

#define ROW(number, run, Params) const LateFunction<decltype(run)> number##Late{run, #run};
#include "gradient/kernels.inc"
#undef ROW

}  // namespace requant::gradient

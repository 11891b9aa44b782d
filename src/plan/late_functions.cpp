#include "base/late_function.h"
#include "plan/lower/convolution/qconv.h"
#include "plan/lower/elementwise/qelementwise.h"
#include "plan/lower/rows.h"
#include "plan/lower/sequence/growing.h"
#include "plan/lower/table.h"
#include "plan/open/open_plan.h"
#include "plan/pack/pack_activations.h"
#include "plan/unheeded_forces.h"

namespace requant {

const LateFunction<decltype(MakeOpenPlan)> kMakeOpenPlan{MakeOpenPlan, "MakeOpenPlan"};
const LateFunction<decltype(PackActivations)> kPackActivations{PackActivations, "PackActivations"};
const LateFunction<decltype(UnheededForces)> kUnheededForces{UnheededForces, "UnheededForces"};
const LateFunction<decltype(AddDenseCopy)> kAddDenseCopy{AddDenseCopy, "AddDenseCopy"};
const LateFunction<decltype(LowerVolume)> kLowerVolume{LowerVolume, "LowerVolume"};
const LateFunction<decltype(MakeQAddNarrow)> kMakeQAddNarrow{MakeQAddNarrow, "MakeQAddNarrow"};
const LateFunction<decltype(AddNarrowRequantize)> kAddNarrowRequantize{AddNarrowRequantize,
                                                                       "AddNarrowRequantize"};

}  // namespace requant

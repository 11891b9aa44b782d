#include "base/late_function.h"
#include "session/program.h"
#include "session/variants.h"

namespace requant {

const LateFunction<decltype(Program::Load)> kLoadProgram{Program::Load, "Program::Load"};
const LateFunction<decltype(MakeVariants)> kMakeVariants{MakeVariants, "MakeVariants"};

}  // namespace requant

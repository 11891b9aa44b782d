#include "base/late_function.h"
#include "session/program.h"

namespace requant {

const LateFunction<decltype(Program::Load)> kLoadProgram{Program::Load, "Program::Load"};

}  // namespace requant

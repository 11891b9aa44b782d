#include "base/operators.h"

namespace requant {
namespace {

#ifdef __EMSCRIPTEN__
bool loaded = false;
#else
bool loaded = true;
#endif

}  // namespace

bool OperatorsLoaded() { return loaded; }
void SetOperatorsLoaded() { loaded = true; }

}  // namespace requant

#include "base/operators.h"

#include <string>

#include "base/error.h"
#include "base/late_function.h"

namespace requant {
namespace {

#ifdef __EMSCRIPTEN__
bool operators_loaded = false;
#else
bool operators_loaded = true;
#endif

}  // namespace

bool OperatorsLoaded() { return operators_loaded; }
void SetOperatorsLoaded(bool loaded) { operators_loaded = loaded; }

void FailNotLoaded(const char* function) {
  Fail(ErrorCode::kInternal, std::string(function) + " is called before it is loaded",
       {.hint = "load the extended operators first"});
}

}  // namespace requant

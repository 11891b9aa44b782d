#include "base/tools.h"

namespace requant {
namespace {

#ifdef __EMSCRIPTEN__
bool loaded = false;
#else
bool loaded = true;
#endif

}  // namespace

bool ToolsLoaded() { return loaded; }
void SetToolsLoaded() { loaded = true; }

}  // namespace requant

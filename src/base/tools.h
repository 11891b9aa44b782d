#pragma once

namespace requant {

/// Whether code among the tools can be called (bindings/README.md): always, but for a core in
/// JavaScript before it has loaded them.
bool ToolsLoaded();
void SetToolsLoaded();

}  // namespace requant

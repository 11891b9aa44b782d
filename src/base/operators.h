#pragma once

namespace requant {

/// Whether code among the rarer operators can be called (bindings/README.md): always, but for a
/// core in JavaScript before it has loaded them.
bool OperatorsLoaded();
void SetOperatorsLoaded();

}  // namespace requant

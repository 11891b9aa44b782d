#pragma once

namespace requant {

/// Whether code among the extended operators can be called (bindings/README.md). A core in
/// JavaScript must load them first; elsewhere they are always there. Single functions are called
/// through a LateFunction, which asks this.
bool OperatorsLoaded();
void SetOperatorsLoaded(bool loaded = true);

}  // namespace requant

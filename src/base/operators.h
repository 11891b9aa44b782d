#pragma once

namespace requant {

/// Whether code among the extended operators can be called (bindings/README.md). A core in
/// JavaScript must load them first; elsewhere they are always there.
bool OperatorsLoaded();
void SetOperatorsLoaded();

}  // namespace requant

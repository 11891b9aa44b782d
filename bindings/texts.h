// Strings of tensors between JavaScript and the core.
#pragma once

namespace requant::bindings {

/// Adds the functions to the core, once the extended operators are loaded.
void BindTexts();

}  // namespace requant::bindings

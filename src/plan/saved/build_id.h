#pragma once

namespace requant {

/// Identifies the build of the engine. In wasm modules the last step of the build replaces the text
/// by a hash of the module (web/scripts/modules/stamp.mjs).
extern const char kBuildId[33];

}  // namespace requant

// Reads one option of a JavaScript object.
#pragma once

#include <emscripten/val.h>

namespace requant::bindings {

/// Whether the option is neither missing nor undefined nor null.
inline bool Has(const emscripten::val& object, const char* key) {
  return !object.isUndefined() && !object.isNull() && !object[key].isUndefined() &&
         !object[key].isNull();
}

/// Sets `target` unless the option is missing.
template <typename T>
void Read(const emscripten::val& object, const char* key, T& target) {
  if (Has(object, key)) target = object[key].as<T>();
}

}  // namespace requant::bindings

// Reads one option of a JavaScript object.
#pragma once

#include <emscripten/val.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "api/requant.h"

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

/// Sets the field of an option's row unless the option is missing. Types whose values have names
/// have a ParseName(), and other names are refused.
template <typename T>
void ReadRow(const emscripten::val& object, const char* key, T& field) {
  if (!Has(object, key)) return;
  const emscripten::val value = object[key];
  if constexpr (requires { ParseName(std::string_view(), &field); }) {
    const auto name = value.as<std::string>();
    if (!ParseName(name, &field)) {
      Fail(ErrorCode::kInvalidArgument, std::string(key) + " '" + name + "' is not known");
    }
  } else if constexpr (std::is_same_v<T, int64_t>) {
    field = static_cast<int64_t>(value.as<double>());
  } else {
    static_assert(!std::is_enum_v<T>, "names of an enumeration need a ParseName()");
    field = value.as<T>();
  }
}

}  // namespace requant::bindings

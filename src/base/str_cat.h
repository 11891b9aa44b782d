// Joins strings and numbers without streams or locales, which would cost wasm bytes.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <type_traits>

namespace requant {

namespace internal {

inline void AppendPiece(std::string& out, std::string_view text) { out += text; }
inline void AppendPiece(std::string& out, const char* text) { out += text; }
inline void AppendPiece(std::string& out, const std::string& text) { out += text; }
inline void AppendPiece(std::string& out, char c) { out += c; }
template <typename T>
requires std::is_integral_v<T>
void AppendPiece(std::string& out, T number) { out += std::to_string(number); }
inline void AppendPiece(std::string& out, double number) {
  char buffer[40];
  std::snprintf(buffer, sizeof buffer, "%.9g", number);
  out += buffer;
}

}  // namespace internal

/// StrCat("dim ", 3, " is ", 0.5) == "dim 3 is 0.5". Floats print with 9 digits: a float32
/// survives the round trip.
template <typename... Pieces>
std::string StrCat(const Pieces&... pieces) {
  std::string out;
  (internal::AppendPiece(out, pieces), ...);
  return out;
}

}  // namespace requant

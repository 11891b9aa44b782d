// Joins strings and numbers without streams or locales, which would cost wasm bytes.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

namespace requant {

/// A piece that StrCat joins: text unchanged, numbers as text (floats with 9 digits).
class StrPiece {
 public:
  StrPiece(std::string_view text) : kind_(Kind::kText), text_(text) {}
  StrPiece(const char* text) : StrPiece(std::string_view(text)) {}
  StrPiece(const std::string& text) : StrPiece(std::string_view(text)) {}
  StrPiece(char c) : kind_(Kind::kChar), integer_(c) {}
  template <typename T>
  requires std::is_integral_v<T> StrPiece(T number)
      : kind_(std::is_signed_v<T> ? Kind::kSigned : Kind::kUnsigned),
        integer_(static_cast<int64_t>(number)) {}
  StrPiece(double number) : kind_(Kind::kReal), real_(number) {}

  void AppendTo(std::string& out) const;

 private:
  enum class Kind : uint8_t { kText, kChar, kSigned, kUnsigned, kReal };
  Kind kind_;
  union {
    std::string_view text_;
    int64_t integer_;
    double real_;
  };
};

std::string JoinPieces(std::initializer_list<StrPiece> pieces);

/// Joins pieces: StrCat("dim ", 3, " is ", 0.5) == "dim 3 is 0.5". Floats print with 9 digits,
/// which restore every float32.
template <typename... Pieces>
std::string StrCat(const Pieces&... pieces) {
  return JoinPieces({StrPiece(pieces)...});
}

}  // namespace requant

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace requant {

/// Names, strings and numbers from the characters of a text; Parser (parse.cpp) gives them their
/// meaning. Blanks and comments, `#` to the end of the line, are skipped before each of them.
/// What cannot be read throws kInvalidModel with line and column.
class Scanner {
 public:
  explicit Scanner(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  [[noreturn]] void Wrong(const std::string& message) const;

  /// Where the next character is read.
  size_t at() const { return at_; }
  void Return(size_t at) { at_ = at; }

  /// The character ahead, not consumed; 0 at the end.
  char Peek();
  /// Whether the very next character, blanks included, is `c`.
  bool Touches(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void SkipSpace();
  bool Accept(std::string_view token);
  void Expect(std::string_view token);

  /// A run of name characters, maybe empty.
  std::string_view Word();
  /// The word ahead, not consumed.
  std::string_view NextWord();
  /// A string with \n, \t, \", \\ and \x00 escaped.
  std::string Quoted();
  /// A word or a string.
  std::string Identifier();

  struct Number {
    bool is_float = false;
    bool negative = false;
    uint64_t magnitude = 0;            // of an integer
    std::string text;                  // of a float, without its sign
    std::optional<uint64_t> nan_bits;  // of nan(0x...)
  };
  Number ReadNumber();
  /// Within [low, high]; uint64 values above INT64_MAX come back with the same 64 bits.
  int64_t Integer(const Number& number, int64_t low, uint64_t high) const;
  static float ToFloat(const Number& number);
  static double ToDouble(const Number& number);

 private:
  int HexDigit();

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace requant

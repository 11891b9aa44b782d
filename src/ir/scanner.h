#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace requant {

/// Reads names, strings and numbers from the characters of a text; Parser (parse.cpp) gives them
/// meaning. Skips blanks and comments (`#` to the end of the line) before each. Throws
/// kInvalidModel with line and column for anything it cannot read.
class Scanner {
 public:
  explicit Scanner(std::string_view text, size_t at = 0) : text_(text), at_(at) {}

  [[noreturn]] void Wrong(const std::string& message) const;

  /// The position of the next character.
  size_t at() const { return at_; }
  void Return(size_t at) { at_ = at; }

  /// The next character, not consumed; 0 at the end.
  char Peek();
  /// Whether the very next character, blank or not, is `c`.
  bool Touches(char c) const { return at_ < text_.size() && text_[at_] == c; }
  void SkipSpace();
  bool Accept(std::string_view token);
  void Expect(std::string_view token);

  /// Reads a run of name characters, maybe empty.
  std::string_view Word();
  /// The next word, not consumed.
  std::string_view NextWord();
  /// Reads a string with the escapes
  /// , \t, \", \\ and \x00.
  std::string Quoted();
  /// Reads a word or a string.
  std::string Identifier();

  struct Number {
    bool is_float = false;
    bool negative = false;
    uint64_t magnitude = 0;            // for an integer
    std::string text;                  // for a float, without its sign
    std::optional<uint64_t> nan_bits;  // for nan(0x...)
  };
  Number ReadNumber();
  /// The number as an integer within [low, high]; uint64 values above INT64_MAX have the same 64
  /// bits.
  int64_t Integer(const Number& number, int64_t low, uint64_t high) const;
  static float ToFloat(const Number& number);
  static double ToDouble(const Number& number);

 private:
  int HexDigit();

  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace requant

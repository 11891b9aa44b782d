#include "ir/scanner.h"

#include <cstring>

#include "base/error.h"
#include "base/number_text.h"
#include "base/str_cat.h"

namespace requant {
namespace {

bool IsWordChar(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '.' || c == '/' || c == '-';
}

}  // namespace

void Scanner::Wrong(const std::string& message) const {
  size_t line = 1;
  size_t column = 1;
  for (size_t i = 0; i < at_ && i < text_.size(); ++i) {
    ++column;
    if (text_[i] == '\n') {
      ++line;
      column = 1;
    }
  }
  Fail(ErrorCode::kInvalidModel, StrCat("line ", line, ", column ", column, ": ", message),
       {.hint = "toText() of a model shows the form"});
}

char Scanner::Peek() {
  SkipSpace();
  return at_ < text_.size() ? text_[at_] : '\0';
}

void Scanner::SkipSpace() {
  while (at_ < text_.size()) {
    const char c = text_[at_];
    if (c == '#') {  // a comment, to the end of the line
      while (at_ < text_.size() && text_[at_] != '\n') ++at_;
    } else if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      ++at_;
    } else {
      return;
    }
  }
}

bool Scanner::Accept(std::string_view token) {
  SkipSpace();
  if (text_.substr(at_, token.size()) != token) return false;
  at_ += token.size();
  return true;
}

void Scanner::Expect(std::string_view token) {
  if (!Accept(token)) Wrong(StrCat("expected '", token, "'"));
}

std::string_view Scanner::Word() {
  SkipSpace();
  const size_t start = at_;
  while (at_ < text_.size() && IsWordChar(text_[at_])) ++at_;
  return text_.substr(start, at_ - start);
}

std::string_view Scanner::NextWord() {
  SkipSpace();
  const size_t start = at_;
  const std::string_view word = Word();
  at_ = start;
  return word;
}

std::string Scanner::Identifier() {
  if (Peek() == '"') return Quoted();
  const std::string_view word = Word();
  if (word.empty()) Wrong("expected a name");
  return std::string(word);
}

int Scanner::HexDigit() {
  const char c = at_ < text_.size() ? text_[at_++] : '\0';
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  Wrong("expected a hexadecimal digit");
}

std::string Scanner::Quoted() {
  Expect("\"");
  std::string out;
  while (true) {
    if (at_ >= text_.size()) Wrong("the string does not end");
    const char c = text_[at_++];
    if (c == '"') return out;
    if (c != '\\') {
      out += c;
      continue;
    }
    const char escape = at_ < text_.size() ? text_[at_++] : '\0';
    if (escape == 'n') {
      out += '\n';
    } else if (escape == 't') {
      out += '\t';
    } else if (escape == '"' || escape == '\\') {
      out += escape;
    } else if (escape == 'x') {
      const int high = HexDigit();
      out += static_cast<char>(high * 16 + HexDigit());
    } else {
      Wrong("unknown escape in a string");
    }
  }
}

Scanner::Number Scanner::ReadNumber() {
  Number number;
  number.negative = Accept("-");
  if (Accept("+")) Wrong("a number has no plus sign");
  SkipSpace();
  const size_t start = at_;
  if (NextWord() == "nan" || NextWord() == "inf") {
    number.is_float = true;
    number.text = std::string(Word());
    if (number.text == "nan" && Touches('(')) {
      Expect("(0x");
      uint64_t bits = 0;
      while (Peek() != ')') bits = bits * 16 + static_cast<uint64_t>(HexDigit());
      Expect(")");
      number.nan_bits = bits;
    }
    return number;
  }
  const auto digits = [this] {
    while (at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9') ++at_;
  };
  digits();
  if (at_ == start) Wrong("expected a number");
  const size_t whole = at_;
  if (at_ < text_.size() && text_[at_] == '.') {
    number.is_float = true;
    ++at_;
    digits();
  }
  if (at_ < text_.size() && (text_[at_] == 'e' || text_[at_] == 'E')) {
    number.is_float = true;
    ++at_;
    if (at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    digits();
  }
  number.text = std::string(text_.substr(start, at_ - start));
  if (number.is_float) return number;
  for (size_t i = start; i < whole; ++i) {
    const auto digit = static_cast<uint64_t>(text_[i] - '0');
    if (__builtin_mul_overflow(number.magnitude, 10, &number.magnitude) ||
        __builtin_add_overflow(number.magnitude, digit, &number.magnitude)) {
      Wrong("the number is too large");
    }
  }
  return number;
}

int64_t Scanner::Integer(const Number& number, int64_t low, uint64_t high) const {
  if (number.is_float) Wrong("expected an integer");
  const uint64_t below = low < 0 ? ~static_cast<uint64_t>(low) + 1 : 0;  // |low|
  if (number.negative ? number.magnitude > below : number.magnitude > high) {
    Wrong("the number is out of its type's range");
  }
  return static_cast<int64_t>(number.negative ? ~number.magnitude + 1 : number.magnitude);
}

double Scanner::ToDouble(const Number& number) {
  if (number.nan_bits) {
    double out;
    std::memcpy(&out, &*number.nan_bits, sizeof out);
    return out;
  }
  const double magnitude = NumberFromText(number.text);
  return number.negative ? -magnitude : magnitude;
}

float Scanner::ToFloat(const Number& number) {
  if (number.nan_bits) {
    const auto bits = static_cast<uint32_t>(*number.nan_bits);
    float out;
    std::memcpy(&out, &bits, sizeof out);
    return out;
  }
  const float magnitude = static_cast<float>(NumberFromText(number.text));
  return number.negative ? -magnitude : magnitude;
}

}  // namespace requant

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace requant {

/// A brace-enclosed list in C of numbers, other lists and names.
class Fields {
 public:
  Fields& operator<<(int64_t number);
  Fields& operator<<(std::string_view text);
  Fields& operator<<(const Fields& list) { return *this << list.Braced(); }
  /// Adds the numbers as a nested list.
  Fields& operator<<(std::span<const int64_t> numbers);

  /// The elements without braces: "1, {2, 3}, name".
  const std::string& text() const { return text_; }
  std::string Braced() const;

 private:
  std::string text_;
};

/// The C text of a number, exact to the bit.
std::string CFloat(float value);

}  // namespace requant

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace requant {

/// A list in C, of numbers, of other lists and of names.
class Fields {
 public:
  Fields& operator<<(int64_t number);
  Fields& operator<<(std::string_view text);
  Fields& operator<<(const Fields& list) { return *this << list.Braced(); }
  /// All of them as a list in the list.
  Fields& operator<<(std::span<const int64_t> numbers);

  /// "1, {2, 3}, name".
  const std::string& text() const { return text_; }
  std::string Braced() const;

 private:
  std::string text_;
};

/// The text of a number in C, bit for bit.
std::string CFloat(float value);

}  // namespace requant

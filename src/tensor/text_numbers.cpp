// Numbers as strings and strings as numbers, for Cast of ONNX (docs/Operators.md and its test
// data).
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/late_text.h"
#include "base/number_text.h"
#include "base/str_cat.h"
#include "tensor/text.h"

namespace requant {
namespace {

/// The number with the fewest digits that restore it. `wide` is one of float64.
std::string RealText(double value, bool wide) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value < 0 ? "-INF" : "INF";
  constexpr int kSingle[] = {6, 7, 8, 9};
  constexpr int kDouble[] = {8, 15, 16, 17};
  for (const int digits : wide ? kDouble : kSingle) {
    const double decimal = NumberFromText(NumberText(value, digits));
    const bool same = wide ? decimal == value : static_cast<float>(decimal) == value;
    // Where the exponent begins to be written does not depend on the digits.
    if (same) return NumberText(decimal, std::max(digits, 8));
  }
  return NumberText(value, 17);
}

[[noreturn]] void Refuse(std::string_view text, const char* why, DType to) {
  constexpr size_t kShown = 40;
  Fail(ErrorCode::kInvalidArgument,
       StrCat(RQ_LATE_TEXT("Cast of the string \""), text.substr(0, kShown),
              text.size() > kShown ? "..." : "", "\" to ", DTypeName(to), ": ", why),
       {.hint = RQ_LATE_TEXT("feed strings that are decimal numbers")});
}

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

/// A decimal number: [sign] digits [. digits] [e [sign] digits].
struct Decimal {
  std::string_view text;  // without spaces around it and a "+" in front
  bool valid = false;
  bool negative = false;
  bool exponent = false;
  std::string_view whole;  // the digits before the point

  explicit Decimal(std::string_view given) : text(given) {
    while (!text.empty() && IsSpace(text.front())) text.remove_prefix(1);
    while (!text.empty() && IsSpace(text.back())) text.remove_suffix(1);
    if (text.starts_with('+')) {
      text.remove_prefix(1);
    } else if (text.starts_with('-')) {
      negative = true;
    }
    size_t at = negative ? 1 : 0;
    const auto digits = [&] {
      const size_t from = at;
      while (at < text.size() && IsDigit(text[at])) ++at;
      return at - from;
    };
    const size_t first = at;
    size_t count = digits();
    whole = text.substr(first, count);
    if (at < text.size() && text[at] == '.') {
      ++at;
      count += digits();
    }
    valid = count > 0;
    if (valid && at < text.size() && (text[at] == 'e' || text[at] == 'E')) {
      exponent = true;
      ++at;
      if (at < text.size() && (text[at] == '+' || text[at] == '-')) ++at;
      valid = digits() > 0;
    }
    valid = valid && at == text.size();
  }

  /// Whether it is this word, in capitals, after a sign.
  bool Is(std::string_view word) const {
    const std::string_view bare = text.substr(negative ? 1 : 0);
    if (bare.size() != word.size()) return false;
    for (size_t i = 0; i < word.size(); ++i) {
      const char c = bare[i];
      if ((c >= 'a' && c <= 'z' ? c - ('a' - 'A') : c) != word[i]) return false;
    }
    return true;
  }
};

double Real(std::string_view text, DType to) {
  const Decimal decimal(text);
  const double sign = decimal.negative ? -1 : 1;
  if (decimal.Is("NAN")) return std::numeric_limits<double>::quiet_NaN();
  if (decimal.Is("INF") || decimal.Is("INFINITY")) {
    return sign * std::numeric_limits<double>::infinity();
  }
  if (!decimal.valid) Refuse(text, RQ_LATE_TEXT("it is no number"), to);
  const double value = NumberFromText(std::string(decimal.text));
  if (std::isinf(value)) Refuse(text, RQ_LATE_TEXT("it is too large"), to);
  return value;
}

/// The number without its fraction, modulo 2^64.
uint64_t Whole(std::string_view text, DType to) {
  const Decimal decimal(text);
  if (!decimal.valid || decimal.exponent) Refuse(text, RQ_LATE_TEXT("it is no whole number"), to);
  const bool any = to == DType::kBool;  // true of all but 0
  const int bits = any ? 64 : DTypeBits(to);
  const bool is_signed = any || to == DType::kInt64 || to == DType::kInt32 || to == DType::kInt16 ||
                         to == DType::kInt8 || to == DType::kInt4 || to == DType::kInt2;
  const uint64_t most = std::numeric_limits<uint64_t>::max() >> (64 - bits + (is_signed ? 1 : 0));
  const uint64_t limit = !decimal.negative ? most : is_signed ? most + 1 : 0;
  uint64_t magnitude = 0;
  for (const char c : decimal.whole) {
    if (__builtin_mul_overflow(magnitude, 10, &magnitude) ||
        __builtin_add_overflow(magnitude, static_cast<uint64_t>(c - '0'), &magnitude) ||
        magnitude > limit) {
      Refuse(text, RQ_LATE_TEXT("it is out of range"), to);
    }
  }
  return decimal.negative ? uint64_t{0} - magnitude : magnitude;
}

}  // namespace

Tensor TextsOfNumbers(const Tensor& numbers) {
  std::vector<std::string> texts;
  const DType from = numbers.dtype();
  for (int64_t i = 0; i < numbers.count(); ++i) {
    if (IsFloat(from)) {
      texts.push_back(RealText(numbers.AsDouble(i), from == DType::kFloat64));
    } else if (from == DType::kUint64) {
      texts.push_back(std::to_string(numbers.data<uint64_t>()[i]));
    } else {
      texts.push_back(std::to_string(numbers.AsInt64(i)));
    }
  }
  return TextTensor(texts, numbers.shape());
}

Tensor NumbersOfTexts(const Tensor& texts, DType to) {
  const std::vector<std::string_view> strings = TextsOf(texts);
  const DType carrier = IsFloat(to)            ? DType::kFloat64
                        : to == DType::kUint64 ? DType::kUint64
                                               : DType::kInt64;
  Tensor out(carrier, texts.shape());
  for (size_t i = 0; i < strings.size(); ++i) {
    if (carrier == DType::kFloat64) {
      out.data<double>()[i] = Real(strings[i], to);
    } else {
      static_cast<uint64_t*>(out.raw())[i] = Whole(strings[i], to);
    }
  }
  return out;
}

}  // namespace requant

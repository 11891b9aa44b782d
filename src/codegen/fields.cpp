#include "codegen/fields.h"

#include <cmath>

#include "base/number_text.h"
#include "base/str_cat.h"

namespace requant {

Fields& Fields::operator<<(int64_t number) { return *this << std::string_view(StrCat(number)); }

Fields& Fields::operator<<(std::string_view text) {
  if (!text_.empty()) text_ += ", ";
  text_ += text;
  return *this;
}

Fields& Fields::operator<<(std::span<const int64_t> numbers) {
  Fields list;
  for (const int64_t number : numbers) list << number;
  return *this << list;
}

std::string Fields::Braced() const { return StrCat("{", text_, "}"); }

std::string CFloat(float value) {
  if (std::isnan(value)) return "(0.0f / 0.0f)";
  if (std::isinf(value)) return value < 0 ? "-HUGE_VALF" : "HUGE_VALF";
  std::string text = NumberText(value);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text + "f";
}

}  // namespace requant

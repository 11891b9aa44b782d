#include "ops/text/letter_case.h"

#ifdef __EMSCRIPTEN__
#include <emscripten/emscripten.h>
#else
#include <clocale>
#include <cwctype>
#endif

namespace requant {
namespace {

#ifdef __EMSCRIPTEN__
// JavaScript has Unicode's tables, which libc would add to every page's download.
// clang-format off
EM_JS(int, requantOtherCase, (int code, int upper), {
  const letter = String.fromCodePoint(code);
  const other = upper ? letter.toUpperCase() : letter.toLowerCase();
  const found = other.codePointAt(0);
  return String.fromCodePoint(found) === other ? found : code;
});
// clang-format on
#else
int requantOtherCase(int code, int upper) {
  static const locale_t kUnicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr);
  if (kUnicode == nullptr) return code;
  const auto letter = static_cast<wint_t>(code);
  return static_cast<int>(upper ? towupper_l(letter, kUnicode) : towlower_l(letter, kUnicode));
}
#endif

/// The code point at `at` and its number of bytes; a size of 0 for bytes that are no UTF-8.
struct CodePoint {
  int code = 0;
  size_t size = 0;

  CodePoint(std::string_view text, size_t at) {
    const auto first = static_cast<unsigned char>(text[at]);
    const size_t wanted = first < 0x80   ? 1
                          : first < 0xc2 ? 0
                          : first < 0xe0 ? 2
                          : first < 0xf0 ? 3
                          : first < 0xf5 ? 4
                                         : 0;
    if (wanted == 0 || wanted > text.size() - at) return;
    int value = wanted == 1 ? first : first & (0x7f >> wanted);
    for (size_t i = 1; i < wanted; ++i) {
      const auto byte = static_cast<unsigned char>(text[at + i]);
      if ((byte & 0xc0) != 0x80) return;
      value = value << 6 | (byte & 0x3f);
    }
    constexpr int kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (value < kLeast[wanted] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return;
    code = value;
    size = wanted;
  }
};

void Append(std::string& out, int code) {
  const auto tail = [&out, code](int shift) {
    out += static_cast<char>(0x80 | (code >> shift & 0x3f));
  };
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0 | code >> 6);
    tail(0);
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0 | code >> 12);
    tail(6);
    tail(0);
  } else {
    out += static_cast<char>(0xf0 | code >> 18);
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::string InCase(std::string_view text, LetterCase letters) {
  const bool upper = letters == LetterCase::kUpper;
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const CodePoint point(text, at);
    if (point.size == 0) {
      out += text[at++];
      continue;
    }
    if (point.code < 0x80) {
      const char c = text[at];
      const bool other = upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
      out += other ? static_cast<char>(c ^ 0x20) : c;
    } else {
      Append(out, requantOtherCase(point.code, upper ? 1 : 0));
    }
    at += point.size;
  }
  return out;
}

}  // namespace requant

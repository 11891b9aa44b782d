#include "base/number_text.h"

#include <cmath>
#include <limits>

#ifdef __EMSCRIPTEN__
#include <emscripten/emscripten.h>
#else
#include <cstdio>
#include <cstdlib>
#endif

namespace requant {
namespace {

constexpr size_t kMostText = 48;  // enough for 17 digits with sign, dot, zeros and exponent

#ifdef __EMSCRIPTEN__
// JavaScript converts numbers as exactly as libc, whose way by 128-bit floats takes 20 kB of wasm.
// clang-format off
EM_JS(int, requantNumberToText, (char* out, double number, int digits), {
  const exponential = number.toExponential(digits - 1).split("e");
  const exponent = Number(exponential[1]);
  const bare = (text) => text.includes(".") ? text.replace(/[.]?0+$/, "") : text;
  let text = Object.is(number, -0) ? "-" : "";
  if (exponent < -4 || exponent >= digits) {
    text += bare(exponential[0]) + (exponent < 0 ? "e-" : "e+") + String(Math.abs(exponent)).padStart(2, "0");
  } else {
    text += bare(number.toFixed(digits - 1 - exponent));
  }
  for (let i = 0; i < text.length; ++i) HEAPU8[out + i] = text.charCodeAt(i);
  return text.length;
});
EM_JS(double, requantTextToNumber, (const char* text, int length), {
  return Number(String.fromCharCode.apply(null, HEAPU8.subarray(text, text + length)));
});
// clang-format on
#else
int requantNumberToText(char* out, double number, int digits) {
  return std::snprintf(out, kMostText, "%.*g", digits, number);
}
double requantTextToNumber(const char* text, int) { return std::strtod(text, nullptr); }
#endif

}  // namespace

std::string NumberText(double number, int digits) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char text[kMostText];
  return {text, static_cast<size_t>(requantNumberToText(text, number, digits))};
}

double NumberFromText(const std::string& text) {
  if (text == "inf") return std::numeric_limits<double>::infinity();
  if (text == "nan") return std::numeric_limits<double>::quiet_NaN();
  return requantTextToNumber(text.c_str(), static_cast<int>(text.size()));
}

std::string HexText(uint64_t number, int width) {
  std::string out;
  for (; number != 0 || width > 0; number >>= 4, --width) {
    out.insert(out.begin(), "0123456789abcdef"[number & 15]);
  }
  return out;
}

}  // namespace requant

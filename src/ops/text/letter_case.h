#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace requant {

enum class LetterCase : uint8_t { kLower, kUpper };

/// The text with all letters in that case, by Unicode's tables and no language's own rules. A
/// letter whose other case is more than one character stays as it is, and so do bytes that are no
/// UTF-8.
std::string InCase(std::string_view text, LetterCase letters);

}  // namespace requant

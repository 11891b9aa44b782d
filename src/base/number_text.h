// Conversions between numbers and text.
#pragma once

#include <cstdint>
#include <string>

namespace requant {

/// The number as printf's %.*g prints it: at most `digits` (1 to 17) significant ones, no trailing
/// zeros; "nan", "inf", "-inf". 9 digits restore every float32, 17 every float64.
std::string NumberText(double number, int digits = 9);

/// The float64 nearest to a decimal number such as "-1.5e-7"; `text` must be one, "inf" or "nan".
double NumberFromText(const std::string& text);

/// Lower-case hexadecimal digits, padded with zeros to at least `width`.
std::string HexText(uint64_t number, int width = 1);

}  // namespace requant

// Strings as elements of tensors. An element of a string tensor is a handle of 8 bytes, so that
// whatever moves elements of 8 bytes moves strings. The pool that the handles refer to holds every
// string once: equal handles mean equal strings. Strings are bytes, of UTF-8 where they come from
// JavaScript; the engine does not check them.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/late_function.h"
#include "tensor/tensor.h"

namespace requant {

/// The handle of a string. The empty one has 0, so that zeroed memory holds empty strings.
uint64_t TextHandle(std::string_view text);
/// The string of a handle, valid until BeginTextRun releases it. Throws kInternal for a handle
/// whose string is gone.
std::string_view TextOf(uint64_t handle);

/// A tensor of these strings, which keeps them. Throws kInvalidModel unless they fit the shape.
Tensor TextTensor(std::span<const std::string> texts, const Shape& shape);
/// The strings of a tensor. Throws kTypeMismatch for a tensor of another type.
std::vector<std::string_view> TextsOf(const Tensor& tensor);

/// The numbers of a tensor as strings: floats by the fewest digits that restore them, in the form
/// of printf's %g, or "NaN", "INF", "-INF"; integers by their digits, bools as "1" and "0".
Tensor TextsOfNumbers(const Tensor& numbers);
/// The numbers of strings, in a type from which `to` follows by a Cast: float64, int64 or uint64. A
/// string is a decimal number, with spaces around it at most; for floats it may have an exponent,
/// or be "INF", "INFINITY" or "NaN" in any case. Integers lose a fraction. Throws kInvalidArgument
/// for other strings, and for numbers beyond the range of `to`.
Tensor NumbersOfTexts(const Tensor& texts, DType to);

/// Begins a run: releases the strings that no TextTensor keeps and that were not asked for since
/// the run before began. So feeds may be made before their run, and results may be read until the
/// next one.
void BeginTextRun();
/// While one exists, BeginTextRun releases nothing: a function of the user runs inside of a run,
/// and may begin others.
class TextHold {
 public:
  TextHold();
  ~TextHold();
  TextHold(const TextHold&) = delete;
  TextHold& operator=(const TextHold&) = delete;
};
/// The number of strings in the pool, without the empty one.
size_t TextCount();

// Among the extended operators.
extern const LateFunction<decltype(TextOf)> kTextOf;
extern const LateFunction<decltype(TextsOfNumbers)> kTextsOfNumbers;
extern const LateFunction<decltype(NumbersOfTexts)> kNumbersOfTexts;
extern const LateFunction<decltype(BeginTextRun)> kBeginTextRun;

inline bool IsText(DType dtype) { return dtype == DType::kString; }

}  // namespace requant

#pragma once
// Rows of floats as bytes with a scale for each row: the tokens of a decoder's past. Freestanding.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// Bytes of a coded row: a float scale and `width` bytes, filled up to a multiple of 4.
inline size_t TokenCodesBytes(size_t width) { return 4 + (width + 3) / 4 * 4; }

/// Each of `rows` rows is either `width` floats x, or a float s and `width` signed bytes c:
///   encode   s = max|x| / 127,   c = round(x * (127 / max|x|)), half to even; all 0 where max|x|
///   is decode   x = c * s
/// so that |x - c * s| is at most s / 2 but for rounding. An infinity or NaN makes the decoded row
/// NaN.
struct TokenCodesParams {
  const void* in = nullptr;
  void* out = nullptr;
  size_t rows = 0, width = 0;
  size_t in_row_stride = 0;  ///< bytes, a multiple of 4
  size_t out_row_stride = 0;
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, TokenCodesParams)
#include "kernels/token_codes/token_codes.inc"
#undef ROW

#pragma once
// The operands of attention as bytes: tokens of queries and keys, and the shares of keys.
// Freestanding.
#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// Rows of floats x become rows of bytes, with one factor for each row. Bytes behind `columns`, up
/// to a multiple of 4, stand for 0.
///
///   tokens  With x' = x - offset and m = max|x'|: code = z + round(x' * (127 / m)), half to even,
///           factor = m / 127, so that x' is about (code - z) * factor. The codes are int8 with z =
///           0, or uint8 with z = 128. Where m is 0 all codes are z. An infinity or NaN makes the
///           factor infinity or NaN.
///   shares  With m = max x: shares of 16 bits s = round(65535 * e^(x - m)), half to even
///   (share.h).
///           `out` gets their high bytes and `low` the low ones. The factor is 1 / sum(s), so that
///           the softmax of x is about s * factor. A row of only -infinity has shares and a factor
///           of 0. NaN and +infinity make the factor NaN, and all shares 0.
///
/// Sums of shares are exact for up to 2^17 columns. Nothing is fused: every row has the same bits
/// on every machine.
struct AttentionCodesParams {
  const float* in = nullptr;
  uint8_t* out = nullptr;
  uint8_t* low = nullptr;         ///< shares only; rows are out_row_stride bytes apart
  float* factors = nullptr;       ///< [rows]
  const float* offset = nullptr;  ///< tokens only: [columns], or null for 0
  size_t rows = 0, columns = 0;
  size_t in_row_stride = 0;   ///< floats
  size_t out_row_stride = 0;  ///< bytes, at least `columns` rounded up to a multiple of 4
  int32_t is_signed = 0;      ///< tokens only: 1 for int8
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, AttentionCodesParams)
#include "kernels/attention_codes/attention_codes.inc"
#undef ROW

// Table lookups of bytes (numeric/lut.h makes the tables). The index is the byte's bit pattern.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// out[r][c] = table[in[r][c]] over `rows` rows of `cols` bytes. Contiguous data is one row; a
/// slice of channels (Concat) has more. in == out is allowed when the strides agree.
struct LutParams {
  const uint8_t* in;
  uint8_t* out;
  const uint8_t* table;  // 256 entries
  size_t rows;
  size_t cols;
  size_t in_row_stride;  // bytes
  size_t out_row_stride;
};

/// Bit i of the output is whether in[i] is at least `threshold`, or is not if `flips` is 1: a
/// lookup of two results as one bit plane (kernels/bitserial/planes.h).
struct LutBitsParams {
  const uint8_t* in = nullptr;
  uint8_t* out = nullptr;
  size_t words = 0;  ///< elements / 32
  int32_t threshold = 0;
  int32_t is_signed = 0;  ///< 1: the input is int8, 0: uint8
  int32_t flips = 0;
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, LutParams)
#include "kernels/lut/lut.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, LutBitsParams)
#include "kernels/lut/lut_bits.inc"
#undef ROW

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

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, LutParams)
#include "kernels/lut/lut.inc"
#undef ROW

// Kernels that move elements without computing on them: matrix transposes (NCHW <-> NHWC), strided
// rows (Concat, Slice, Split of channels) and strided copies of up to eight dimensions.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "kernels/import.h"
#include "kernels/rows.h"

namespace requant {

/// out[b][c][r] = in[b][r][c]. With rows = C and cols = HW this turns [N][C][HW] into [N][HW][C];
/// with the two exchanged it goes back. Strides are in elements; in and out must not overlap.
struct TransposeParams {
  const void* in;
  void* out;
  size_t batch;
  size_t rows;
  size_t cols;
  size_t in_batch_stride;
  size_t in_row_stride;  // >= cols
  size_t out_batch_stride;
  size_t out_row_stride;  // >= rows
};

/// Copies `rows` rows of `bytes` bytes from one stride to another (both in bytes); no overlap.
struct CopyRowsParams {
  const void* in;
  void* out;
  size_t rows;
  size_t bytes;
  size_t in_row_stride;
  size_t out_row_stride;
};

inline constexpr int kMaxCopyRank = 8;

/// Any strided copy: for every index in dims, out[sum(i * out_strides)] = in[sum(i * in_strides)].
/// Strides are in elements and may be zero (broadcast) or negative (reversal) on the input's side;
/// the pointers name element (0, ..., 0).
struct StridedCopyParams {
  const void* in;
  void* out;
  size_t element_size;  // bytes; 1, 2, 4, 8 are fast, others work
  int32_t rank;         // 0..kMaxCopyRank
  size_t dims[kMaxCopyRank];
  ptrdiff_t in_strides[kMaxCopyRank];
  ptrdiff_t out_strides[kMaxCopyRank];
};

}  // namespace requant

#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, TransposeParams)
#include "kernels/layout/transpose.inc"
#undef ROW
#define ROW(linkage, run, ...) RQ_DECLARE_##linkage(run, CopyRowsParams)
#include "kernels/layout/copy_rows.inc"
#undef ROW

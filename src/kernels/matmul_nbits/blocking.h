#pragma once
// The layout of packed 4-bit weights, which all rows share, and of the workspace. Freestanding.
//
// For every group of 8 columns, for every block of k: 8 float scales, 8 zero points (uint8, padded
// to 16 bytes; left out when all are 8), then for every step of 4 k 16 bytes: byte c * 4 + i has
// the code of column c (0..3) and k i in its low half, that of column c + 4 in its high half. Two
// masks thus give the operands of two dot products. What pads n and k has the zero point as code.
#include <stddef.h>
#include <stdint.h>

namespace requant::nbits {

inline constexpr int32_t kColumns = 8;  // of a group
inline constexpr int32_t kStep = 4;     // k of a step
inline constexpr int32_t kStepBytes = kColumns * kStep / 2;
/// Rows of `a` in the workspace at a time: as floats, as bytes.
inline constexpr int32_t kPanelRows = 32, kQ8PanelRows = 64;
/// Values of `a` that share a scale: of products of -127..127 and 0..15, as many pairs fit an int16
/// (2 * 127 * 15 * 8 = 30480).
inline constexpr int32_t kChunk = 32;
/// Rows of a register tile of the integer rows, and a chunk's codes as bytes.
inline constexpr int32_t kTileRows = 4;
inline constexpr int32_t kUnpackedBytes = kChunk * kColumns;

inline int32_t Blocks(int32_t k, int32_t block) { return (k + block - 1) / block; }
inline int32_t Groups(int32_t n) { return (n + kColumns - 1) / kColumns; }
inline int32_t Chunk(int32_t block) { return block < kChunk ? block : kChunk; }
/// Bytes before the codes of one block.
inline int32_t HeaderBytes(int32_t has_zero_points) {
  return kColumns * 4 + (has_zero_points != 0 ? 16 : 0);
}
inline ptrdiff_t BlockBytes(int32_t block, int32_t has_zero_points) {
  return HeaderBytes(has_zero_points) + static_cast<ptrdiff_t>(block) * kColumns / 2;
}
inline int32_t RowsInPanel(int32_t rows, int32_t most) { return rows < most ? rows : most; }

}  // namespace requant::nbits

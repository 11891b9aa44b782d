#pragma once
// The layouts of packed weights of 4 and 8 bits, which all rows share, and of the workspace.
// Freestanding.
//
// Weights are packed by groups of 8 columns, and within a group by blocks of k. A block is:
//
//   8 float scales | 8 zero points, uint8, padded to 16 bytes | steps of 4 k
//
// The zero points are left out when all are 8 (4 bits) or 128 (8 bits). A step of 8 bits has 32
// bytes: byte i * 8 + c is k = i of column c. A step of 4 bits has 16 bytes, and byte c * 4 + i
// holds k = i of two columns:
//
//   bits 7..4: column 4 + c     bits 3..0: column c          (c = 0..3, i = 0..3)
//
// so that two masks give the operands of two dot products. Padding of n and k has the zero point as
// its code.
#include <stddef.h>
#include <stdint.h>

namespace requant::nbits {

inline constexpr int32_t kColumns = 8;                       // columns of a group
inline constexpr int32_t kStep = 4;                          // values of k in a step
inline constexpr int32_t kStepBytes = kColumns * kStep / 2;  // of 4 bits
inline constexpr int32_t kByteStepBytes = kColumns * kStep;  // of 8 bits
/// Rows of `a` in the workspace at a time: as floats, and as bytes.
inline constexpr int32_t kPanelRows = 32, kQ8PanelRows = 64;
/// Values of `a` that share a scale. Eight pairs of products of -127..127 and 0..15 still fit an
/// int16: 2 * 127 * 15 * 8 = 30480.
inline constexpr int32_t kChunk = 32;
/// Rows of a register tile of the integer rows, and bytes of a chunk's unpacked codes.
inline constexpr int32_t kTileRows = 4;
inline constexpr int32_t kUnpackedBytes = kChunk * kColumns;

inline int32_t Blocks(int32_t k, int32_t block) { return (k + block - 1) / block; }
inline int32_t Groups(int32_t n) { return (n + kColumns - 1) / kColumns; }
inline int32_t Chunk(int32_t block) { return block < kChunk ? block : kChunk; }
/// Bytes before the codes of one block.
inline int32_t HeaderBytes(int32_t has_zero_points) {
  return kColumns * 4 + (has_zero_points != 0 ? 16 : 0);
}
inline ptrdiff_t BlockBytes(int32_t block, int32_t has_zero_points, int32_t bits = 4) {
  return HeaderBytes(has_zero_points) + static_cast<ptrdiff_t>(block) * kColumns * bits / 8;
}
/// The zero point where none are packed.
inline int32_t MiddleOf(int32_t bits) { return 1 << (bits - 1); }
inline int32_t RowsInPanel(int32_t rows, int32_t most) { return rows < most ? rows : most; }

}  // namespace requant::nbits

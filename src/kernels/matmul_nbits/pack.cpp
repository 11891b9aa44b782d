#include "kernels/matmul_nbits/pack.h"

#include <cstring>

#include "base/checked_math.h"
#include "kernels/matmul_nbits/blocking.h"
#include "kernels/matmul_nbits/table.h"

namespace requant {
namespace {

uint8_t Half(const uint8_t* bytes, int64_t i) { return bytes[i / 2] >> (i % 2 * 4) & 15; }

/// Packs a block of 4 bits of which all weights are there: `from` has the codes of column c at c *
/// `stride`.
void PackWholeBlock(const uint8_t* from, int64_t stride, int32_t block, uint8_t* codes) {
  using nbits::kStep;
  using nbits::kStepBytes;
  for (int32_t c = 0; c < 4; ++c) {
    const uint8_t* low = from + c * stride;
    const uint8_t* high = from + (c + 4) * stride;
    uint8_t* to = codes + c * kStep;
    for (int32_t i = 0; i < block / 2; i += 2, to += kStepBytes) {
      for (int32_t j = 0; j < 2; ++j) {
        to[2 * j] = static_cast<uint8_t>((low[i + j] & 15) | (high[i + j] << 4));
        to[2 * j + 1] = static_cast<uint8_t>((low[i + j] >> 4) | (high[i + j] & 0xf0));
      }
    }
  }
}

/// Packs a block of bytes of which all weights are there, as PackWholeBlock.
void PackWholeBytes(const uint8_t* from, int64_t stride, int32_t block, uint8_t* codes) {
  for (int32_t i = 0; i < block; ++i, codes += nbits::kColumns) {
    for (int32_t c = 0; c < nbits::kColumns; ++c) codes[c] = from[c * stride + i];
  }
}

/// Code `i` of a run of 4 or 8 bits.
int CodeAt(const uint8_t* bytes, int64_t i, int32_t bits) {
  return bits == 8 ? bytes[i] : Half(bytes, i);
}

/// Writes the code of a column and of k = i within its block.
void SetCode(uint8_t* codes, int32_t i, int32_t column, int32_t bits, int code) {
  using namespace nbits;
  if (bits == 8) {
    codes[i * kColumns + column] = static_cast<uint8_t>(code);
  } else {
    codes[i / kStep * kStepBytes + column % 4 * kStep + i % kStep] |=
        static_cast<uint8_t>(code << (column / 4 * 4));
  }
}

/// The code of a column and of k = i within its block.
int GetCode(const uint8_t* codes, int32_t i, int32_t column, int32_t bits) {
  using namespace nbits;
  if (bits == 8) return codes[i * kColumns + column];
  const int both = codes[i / kStep * kStepBytes + column % 4 * kStep + i % kStep];
  return both >> (column / 4 * 4) & 15;
}

/// Bytes of one row whose elements have `bytes` bytes, k padded to whole blocks.
size_t PaddedDepth(const MatMulNBitsParams& p, size_t bytes) {
  const auto blocks = static_cast<size_t>(nbits::Blocks(p.k, p.block));
  return CheckedMul(CheckedMul(blocks, static_cast<size_t>(p.block)), bytes);
}

}  // namespace

namespace nbits {

size_t PackedSize(const MatMulNBitsWeights& w) {
  const auto block_bytes =
      static_cast<size_t>(BlockBytes(w.block, w.zero_points != nullptr ? 1 : 0, w.bits));
  const auto blocks = static_cast<size_t>(Blocks(w.k, w.block));
  return CheckedMul(CheckedMul(static_cast<size_t>(Groups(w.n)), blocks), block_bytes);
}

void Pack(const MatMulNBitsWeights& w, void* packed) {
  const int32_t blocks = Blocks(w.k, w.block);
  const bool zeros = w.zero_points != nullptr;
  const ptrdiff_t block_bytes = BlockBytes(w.block, zeros ? 1 : 0, w.bits);
  const int64_t code_bytes = int64_t{w.block} * w.bits / 8;
  const int64_t zero_bytes = (int64_t{blocks} * w.bits + 7) / 8;
  auto* to = static_cast<uint8_t*>(packed);
  for (int32_t group = 0; group < Groups(w.n); ++group) {
    for (int32_t b = 0; b < blocks; ++b, to += block_bytes) {
      uint8_t* codes = to + HeaderBytes(zeros ? 1 : 0);
      std::memset(to, 0, static_cast<size_t>(block_bytes));
      const bool whole = (group + 1) * kColumns <= w.n && (b + 1) * w.block <= w.k;
      if (whole) {
        const auto pack = w.bits == 8 ? PackWholeBytes : PackWholeBlock;
        const int64_t row_bytes = int64_t{blocks} * code_bytes;
        pack(w.codes + int64_t{group} * kColumns * row_bytes + b * code_bytes, row_bytes, w.block,
             codes);
      }
      for (int32_t column = 0; column < kColumns; ++column) {
        const int64_t n = int64_t{group} * kColumns + column;
        const bool there = n < w.n;
        int zero = MiddleOf(w.bits);
        if (there && zeros) zero = CodeAt(w.zero_points + n * zero_bytes, b, w.bits);
        const float scale = there ? w.scales[n * blocks + b] : 0.0f;
        std::memcpy(to + column * 4, &scale, 4);
        if (zeros) to[kColumns * 4 + column] = static_cast<uint8_t>(zero);
        if (whole) continue;
        const uint8_t* from = w.codes + (n * blocks + b) * code_bytes;
        for (int32_t i = 0; i < w.block; ++i) {
          const bool inside = there && b * w.block + i < w.k;
          SetCode(codes, i, column, w.bits, inside ? CodeAt(from, i, w.bits) : zero);
        }
      }
    }
  }
}

void Unpack(const MatMulNBitsWeights& w, const void* packed, size_t part, void* to) {
  const int32_t blocks = Blocks(w.k, w.block);
  const int32_t zeros = w.zero_points != nullptr ? 1 : 0;
  const ptrdiff_t block_bytes = BlockBytes(w.block, zeros, w.bits);
  const int64_t code_bytes = int64_t{w.block} * w.bits / 8;
  for (int32_t n = 0; n < w.n; ++n) {
    const int32_t column = n % kColumns;
    for (int32_t b = 0; b < blocks; ++b) {
      const uint8_t* from =
          static_cast<const uint8_t*>(packed) + (int64_t{n / kColumns} * blocks + b) * block_bytes;
      const int64_t at = int64_t{n} * blocks + b;
      if (part == 1) {
        std::memcpy(static_cast<float*>(to) + at, from + column * 4, 4);
        continue;
      }
      uint8_t* codes = static_cast<uint8_t*>(to) + at * code_bytes;
      for (int32_t i = 0; i < w.block; ++i) {
        const int code = GetCode(from + HeaderBytes(zeros), i, column, w.bits);
        codes[i * w.bits / 8] |= static_cast<uint8_t>(w.bits == 8 ? code : code << (i % 2 * 4));
      }
    }
  }
}

size_t NoWorkspace(const MatMulNBitsParams&) { return 0; }

/// Holds a panel of rows with k padded by 0, and a group's weights as floats.
size_t F32Workspace(const MatMulNBitsParams& p) {
  const auto rows = static_cast<size_t>(RowsInPanel(p.rows, kPanelRows)) + size_t{kColumns};
  return CheckedMul(PaddedDepth(p, sizeof(float)), rows);
}

/// Holds, for every row of a panel, the sums of a group, its bytes, and a scale and a sum for every
/// chunk; and one chunk of unpacked codes.
size_t Q8Workspace(const MatMulNBitsParams& p) {
  const auto rows = static_cast<size_t>(RowsInPanel(p.rows, kQ8PanelRows));
  const size_t chunks = PaddedDepth(p, 1) / static_cast<size_t>(Chunk(p.block));
  const size_t row_bytes = CheckedAdd(PaddedDepth(p, 1), CheckedMul(chunks, 8));
  const size_t sums = size_t{kColumns} * sizeof(float);
  return CheckedAdd(CheckedMul(CheckedAdd(row_bytes, sums), rows), size_t{kUnpackedBytes});
}

/// Holds the bytes of one row.
size_t Q8ReferenceWorkspace(const MatMulNBitsParams& p) { return PaddedDepth(p, 1); }

}  // namespace nbits
}  // namespace requant

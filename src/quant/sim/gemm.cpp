#include "quant/sim/gemm.h"

#include <algorithm>
#include <memory>

#include "base/float4.h"

namespace requant {
namespace {

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 8;
constexpr int64_t kDepth = 256;  // depth of a panel of b: 8 kB

/// Computes kRows x kColumns products over one panel. `a` is packed as [depth][kRows], `b` as
/// [depth][kColumns].
void Tile(const float* a, const float* b, int64_t depth, float* out) {
  Float4 c00{}, c01{}, c10{}, c11{}, c20{}, c21{}, c30{}, c31{};
  for (int64_t k = 0; k < depth; ++k) {
    const Float4 b0 = Load4(b), b1 = Load4(b + 4);
    const float a0 = a[0], a1 = a[1], a2 = a[2], a3 = a[3];
    c00 += a0 * b0;
    c01 += a0 * b1;
    c10 += a1 * b0;
    c11 += a1 * b1;
    c20 += a2 * b0;
    c21 += a2 * b1;
    c30 += a3 * b0;
    c31 += a3 * b1;
    a += kRows;
    b += kColumns;
  }
  Store4(out, c00), Store4(out + 4, c01);
  Store4(out + 8, c10), Store4(out + 12, c11);
  Store4(out + 16, c20), Store4(out + 20, c21);
  Store4(out + 24, c30), Store4(out + 28, c31);
}

/// Transposes a 4 x 4 matrix of four vectors.
void Transpose(const Float4* in, float* out, int64_t out_step) {
  const Float4 ab0 = __builtin_shufflevector(in[0], in[1], 0, 4, 1, 5);
  const Float4 ab1 = __builtin_shufflevector(in[0], in[1], 2, 6, 3, 7);
  const Float4 cd0 = __builtin_shufflevector(in[2], in[3], 0, 4, 1, 5);
  const Float4 cd1 = __builtin_shufflevector(in[2], in[3], 2, 6, 3, 7);
  Store4(out, __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5));
  Store4(out + out_step, __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7));
  Store4(out + 2 * out_step, __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5));
  Store4(out + 3 * out_step, __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7));
}

/// Packs a strip of `filled` rows or columns of a matrix as [depth][kWide], with zeros behind the
/// last one. `step` leads from one row or column of the strip to the next, `deep_step` along the
/// depth.
template <int64_t kWide>
void Pack(const float* from, int64_t step, int64_t deep_step, int64_t filled, int64_t depth,
          float* to) {
  int64_t k = 0;
  if (filled == kWide && step == 1) {
    for (; k < depth; ++k, to += kWide) {
      for (int64_t i = 0; i < kWide; i += 4) {
        Store4(to + i, Load4(from + k * deep_step + i));
      }
    }
  } else if (filled == kWide && deep_step == 1) {
    for (; k + 4 <= depth; k += 4, to += 4 * kWide) {
      for (int64_t i = 0; i < kWide; i += 4) {
        Float4 lines[4];
        for (int64_t j = 0; j < 4; ++j) {
          lines[j] = Load4(from + (i + j) * step + k);
        }
        Transpose(lines, to + i, kWide);
      }
    }
  }
  for (; k < depth; ++k, to += kWide) {
    for (int64_t i = 0; i < filled; ++i) to[i] = from[i * step + k * deep_step];
    for (int64_t i = filled; i < kWide; ++i) to[i] = 0;
  }
}

}  // namespace

void Gemm(int64_t rows, int64_t columns, int64_t depth, const MatrixView& a, const MatrixView& b,
          float* c, int64_t c_step, bool add) {
  if (!add) {
    for (int64_t row = 0; row < rows; ++row) std::fill_n(c + row * c_step, columns, 0.0f);
  }
  const int64_t row_blocks = (rows + kRows - 1) / kRows;
  const std::unique_ptr<float[]> packed(
      new float[static_cast<size_t>(row_blocks * kRows * kDepth)]);
  alignas(16) float panel[kDepth * kColumns];
  alignas(16) float tile[kRows * kColumns];
  for (int64_t k0 = 0; k0 < depth; k0 += kDepth) {
    const int64_t deep = std::min(kDepth, depth - k0);
    for (int64_t block = 0; block < row_blocks; ++block) {
      Pack<kRows>(a.data + block * kRows * a.row_step + k0 * a.column_step, a.row_step,
                  a.column_step, std::min(kRows, rows - block * kRows), deep,
                  packed.get() + block * kRows * deep);
    }
    for (int64_t j0 = 0; j0 < columns; j0 += kColumns) {
      const int64_t wide = std::min(kColumns, columns - j0);
      Pack<kColumns>(b.data + k0 * b.row_step + j0 * b.column_step, b.column_step, b.row_step, wide,
                     deep, panel);
      for (int64_t block = 0; block < row_blocks; ++block) {
        Tile(packed.get() + block * kRows * deep, panel, deep, tile);
        const int64_t filled = std::min(kRows, rows - block * kRows);
        for (int64_t i = 0; i < filled; ++i) {
          float* to = c + (block * kRows + i) * c_step + j0;
          if (wide == kColumns) {
            const float* from = tile + i * kColumns;
            Store4(to, Load4(to) + Load4(from));
            Store4(to + 4, Load4(to + 4) + Load4(from + 4));
            continue;
          }
          for (int64_t j = 0; j < wide; ++j) to[j] += tile[i * kColumns + j];
        }
      }
    }
  }
}

}  // namespace requant

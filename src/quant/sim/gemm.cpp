#include "quant/sim/gemm.h"

#include <algorithm>
#include <vector>

namespace requant {
namespace {

using Vector = float __attribute__((vector_size(16), aligned(4)));

constexpr int64_t kRows = 4;
constexpr int64_t kColumns = 8;
constexpr int64_t kDepth = 256;  // of a panel of b: 8 kB

/// kRows x kColumns products over one panel. `a` is packed [depth][kRows], `b` [depth][kColumns].
void Tile(const float* a, const float* b, int64_t depth, float* out) {
  Vector c00{}, c01{}, c10{}, c11{}, c20{}, c21{}, c30{}, c31{};
  for (int64_t k = 0; k < depth; ++k) {
    const Vector b0 = *reinterpret_cast<const Vector*>(b);
    const Vector b1 = *reinterpret_cast<const Vector*>(b + 4);
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
  auto* to = reinterpret_cast<Vector*>(out);
  to[0] = c00, to[1] = c01, to[2] = c10, to[3] = c11;
  to[4] = c20, to[5] = c21, to[6] = c30, to[7] = c31;
}

}  // namespace

void Gemm(int64_t rows, int64_t columns, int64_t depth, const MatrixView& a, const MatrixView& b,
          float* c, int64_t c_step, bool add) {
  if (!add) {
    for (int64_t row = 0; row < rows; ++row) std::fill_n(c + row * c_step, columns, 0.0f);
  }
  const int64_t row_blocks = (rows + kRows - 1) / kRows;
  std::vector<float> packed(static_cast<size_t>(row_blocks * kRows * kDepth));
  alignas(16) float panel[kDepth * kColumns];
  alignas(16) float tile[kRows * kColumns];
  for (int64_t k0 = 0; k0 < depth; k0 += kDepth) {
    const int64_t deep = std::min(kDepth, depth - k0);
    for (int64_t block = 0; block < row_blocks; ++block) {
      float* to = packed.data() + block * kRows * deep;
      const int64_t filled = std::min(kRows, rows - block * kRows);
      for (int64_t k = 0; k < deep; ++k) {
        const float* from = a.data + block * kRows * a.row_step + (k0 + k) * a.column_step;
        for (int64_t i = 0; i < kRows; ++i)
          to[k * kRows + i] = i < filled ? from[i * a.row_step] : 0;
      }
    }
    for (int64_t j0 = 0; j0 < columns; j0 += kColumns) {
      const int64_t wide = std::min(kColumns, columns - j0);
      for (int64_t k = 0; k < deep; ++k) {
        const float* from = b.data + (k0 + k) * b.row_step + j0 * b.column_step;
        float* to = panel + k * kColumns;
        if (wide == kColumns && b.column_step == 1) {
          const auto* vectors = reinterpret_cast<const Vector*>(from);
          reinterpret_cast<Vector*>(to)[0] = vectors[0];
          reinterpret_cast<Vector*>(to)[1] = vectors[1];
          continue;
        }
        for (int64_t j = 0; j < wide; ++j) to[j] = from[j * b.column_step];
        for (int64_t j = wide; j < kColumns; ++j) to[j] = 0;
      }
      for (int64_t block = 0; block < row_blocks; ++block) {
        Tile(packed.data() + block * kRows * deep, panel, deep, tile);
        const int64_t filled = std::min(kRows, rows - block * kRows);
        for (int64_t i = 0; i < filled; ++i) {
          float* to = c + (block * kRows + i) * c_step + j0;
          if (wide == kColumns) {
            reinterpret_cast<Vector*>(to)[0] += reinterpret_cast<const Vector*>(tile)[2 * i];
            reinterpret_cast<Vector*>(to)[1] += reinterpret_cast<const Vector*>(tile)[2 * i + 1];
            continue;
          }
          for (int64_t j = 0; j < wide; ++j) to[j] += tile[i * kColumns + j];
        }
      }
    }
  }
}

}  // namespace requant

// The scalar rows: the formulas of kernel.h, one output at a time.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/matmul_nbits/blocking.h"
#include "kernels/matmul_nbits/table.h"

namespace requant {
namespace {

using namespace nbits;

/// One block of one column of weights.
struct Block {
  const uint8_t* codes;
  int32_t column, bits;
  float scale;
  int32_t zero_point;

  Block(const MatMulNBitsParams* p, int32_t n, int32_t b) : bits(p->bits) {
    const int32_t group = n / kColumns;
    column = n % kColumns;
    const uint8_t* at = static_cast<const uint8_t*>(p->weights) +
                        (static_cast<ptrdiff_t>(group) * Blocks(p->k, p->block) + b) *
                            BlockBytes(p->block, p->has_zero_points, bits);
    std::memcpy(&scale, at + column * 4, 4);
    zero_point = p->has_zero_points != 0 ? at[kColumns * 4 + column] : MiddleOf(bits);
    codes = at + HeaderBytes(p->has_zero_points);
  }
  int32_t Code(int32_t i) const {
    if (bits == 8) return codes[i * kColumns + column];
    const uint8_t both = codes[i / kStep * kStepBytes + column % 4 * kStep + i % kStep];
    return both >> (column / 4 * 4) & 15;
  }
};

template <typename Column>
void ForEachColumn(const MatMulNBitsParams* p, Column column) {
  const int32_t end = std::min(p->end * kColumns, p->n);
  for (int32_t n = p->begin * kColumns; n < end; ++n) column(n);
}

/// Quantizes at most a chunk of values to bytes and returns the scale.
float QuantizeChunk(const float* x, int32_t count, int8_t* bytes) {
  float most = 0;
  bool is_nan = false;
  for (int32_t i = 0; i < count; ++i) {
    is_nan = is_nan || std::isnan(x[i]);
    most = std::max(most, std::fabs(x[i]));
  }
  if (is_nan) most = NAN;
  const float inverse = most == 0 ? 0 : 127.0f / most;
  for (int32_t i = 0; i < count; ++i) {
    const float code = std::nearbyint(x[i] * inverse);
    bytes[i] = std::isnan(code) ? int8_t{0}
                                : static_cast<int8_t>(std::min(std::max(code, -127.0f), 127.0f));
  }
  return most / 127.0f;
}

}  // namespace

void MatMulNBitsF32Reference(const MatMulNBitsParams* p) {
  for (int32_t m = 0; m < p->rows; ++m) {
    const float* a = p->a + static_cast<ptrdiff_t>(m) * p->k;
    ForEachColumn(p, [&](int32_t n) {
      float sum = 0;
      for (int32_t k = 0; k < p->k; ++k) {
        const Block block(p, n, k / p->block);
        const auto level = static_cast<float>(block.Code(k % p->block) - block.zero_point);
        sum += a[k] * (level * block.scale);
      }
      p->out[static_cast<ptrdiff_t>(m) * p->n + n] = sum;
    });
  }
}

void MatMulNBitsQ8Reference(const MatMulNBitsParams* p) {
  const int32_t size = Chunk(p->block);
  auto* bytes = static_cast<int8_t*>(p->workspace);
  for (int32_t m = 0; m < p->rows; ++m) {
    const float* a = p->a + static_cast<ptrdiff_t>(m) * p->k;
    float* out = p->out + static_cast<ptrdiff_t>(m) * p->n;
    ForEachColumn(p, [out](int32_t n) { out[n] = 0; });
    for (int32_t first = 0; first < p->k; first += size) {
      const int32_t count = std::min(size, p->k - first);
      const float scale = QuantizeChunk(a + first, count, bytes);
      ForEachColumn(p, [&](int32_t n) {
        const Block block(p, n, first / p->block);
        int32_t product = 0, sum = 0;
        for (int32_t i = 0; i < count; ++i) {
          product += bytes[i] * block.Code((first + i) % p->block);
          sum += bytes[i];
        }
        out[n] += static_cast<float>(product - block.zero_point * sum) * (block.scale * scale);
      });
    }
  }
}

}  // namespace requant

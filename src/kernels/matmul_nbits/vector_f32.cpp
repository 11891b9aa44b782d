// The float row. A group's weights become floats once for a panel of rows and then go through a
// register tile as in kernels/conv/float/tile_f32.h. For a few rows, codes go straight into the
// sums, since storing floats would be most of the work.
#include "base/simd.h"
#include "kernels/matmul_nbits/blocking.h"
#include "kernels/matmul_nbits/kernel.h"
#include "kernels/matmul_nbits/store.h"

namespace requant {
namespace {

using namespace nbits;

/// Below this many rows weights are not stored as floats.
constexpr int32_t kFewRows = 3;

/// Converts eight int16 to two vectors of floats.
RQ_INLINE void ToFloats(v128_t levels, v128_t* low, v128_t* high) {
  *low = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_low_i16x8(levels));
  *high = wasm_f32x4_convert_i32x4(wasm_i32x4_extend_high_i16x8(levels));
}

/// Transposes the bytes of a step of 4 bits from [column][k] to [k][column].
RQ_INLINE v128_t Transpose4x4(v128_t x) {
  return wasm_i8x16_shuffle(x, x, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
}

/// Loads steps of codes less the zero points of their block.
template <int kBits>
class Steps;

template <>
class Steps<4> {
 public:
  static constexpr int32_t kBytes = kStepBytes;

  RQ_MEMBER Steps(const MatMulNBitsParams* p, const uint8_t* block)
      : mask_(simd::LoopConstant(int8_t{15}, static_cast<size_t>(p->block))) {
    zeros_[0] = zeros_[1] = wasm_i8x16_splat(8);
    if (p->has_zero_points == 0) return;
    const v128_t zeros = wasm_v128_load64_zero(block + kColumns * 4);
    zeros_[0] = wasm_i8x16_shuffle(zeros, zeros, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
    zeros_[1] = wasm_i8x16_shuffle(zeros, zeros, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7);
  }
  /// Floats [k][column] for columns 0..3 and 4..7.
  RQ_MEMBER void Load(const uint8_t* codes, v128_t* low, v128_t* high) const {
    const v128_t both = wasm_v128_load(codes);
    Widen(wasm_i8x16_sub(wasm_v128_and(both, mask_), zeros_[0]), low);
    Widen(wasm_i8x16_sub(wasm_v128_and(wasm_u16x8_shr(both, 4), mask_), zeros_[1]), high);
  }

 private:
  RQ_INLINE void Widen(v128_t levels, v128_t* out) {
    const v128_t by_k = Transpose4x4(levels);
    ToFloats(wasm_i16x8_extend_low_i8x16(by_k), &out[0], &out[1]);
    ToFloats(wasm_i16x8_extend_high_i8x16(by_k), &out[2], &out[3]);
  }
  v128_t mask_, zeros_[2];
};

template <>
class Steps<8> {
 public:
  static constexpr int32_t kBytes = kByteStepBytes;

  RQ_MEMBER Steps(const MatMulNBitsParams* p, const uint8_t* block)
      : zeros_(p->has_zero_points != 0 ? wasm_u16x8_load8x8(block + kColumns * 4)
                                       : wasm_i16x8_splat(128)) {}
  RQ_MEMBER void Load(const uint8_t* codes, v128_t* low, v128_t* high) const {
    RQ_UNROLL for (int i = 0; i < kStep; ++i) {
      const v128_t levels = wasm_i16x8_sub(wasm_u16x8_load8x8(codes + i * kColumns), zeros_);
      ToFloats(levels, &low[i], &high[i]);
    }
  }

 private:
  v128_t zeros_;
};

/// Unpacks one group of columns to floats [padded k][8].
template <int kBits>
__attribute__((noinline)) void Unpack(const MatMulNBitsParams* p, const uint8_t* block,
                                      int32_t blocks, float* out) {
  for (int32_t b = 0; b < blocks; ++b, block += BlockBytes(p->block, p->has_zero_points, kBits)) {
    const v128_t scale0 = wasm_v128_load(block), scale1 = wasm_v128_load(block + 16);
    const Steps<kBits> steps(p, block);
    const uint8_t* codes = block + HeaderBytes(p->has_zero_points);
    for (int32_t k = 0; k < p->block; k += kStep, codes += steps.kBytes, out += kStep * kColumns) {
      v128_t low[4], high[4];
      steps.Load(codes, low, high);
      RQ_UNROLL for (int i = 0; i < 4; ++i) {
        wasm_v128_store(out + i * kColumns, wasm_f32x4_mul(low[i], scale0));
        wasm_v128_store(out + i * kColumns + 4, wasm_f32x4_mul(high[i], scale1));
      }
    }
  }
}

template <int kRows, bool kFused>
__attribute__((noinline)) void Tile(const MatMulNBitsParams* p, const float* a, ptrdiff_t lda,
                                    const float* w, int32_t row, int32_t column) {
  v128_t acc0[kRows], acc1[kRows];
  const float* rows[kRows];
  RQ_UNROLL for (int i = 0; i < kRows; ++i) {
    acc0[i] = acc1[i] = wasm_f32x4_splat(0);
    rows[i] = a + i * lda;
  }
  for (ptrdiff_t k = lda; k > 0; --k, w += kColumns) {
    const v128_t w0 = wasm_v128_load(w), w1 = wasm_v128_load(w + 4);
    RQ_UNROLL for (int i = 0; i < kRows; ++i) {
      const v128_t x = wasm_v128_load32_splat(rows[i]++);
      acc0[i] = simd::MulAddF32<kFused>(x, w0, acc0[i]);
      acc1[i] = simd::MulAddF32<kFused>(x, w1, acc1[i]);
    }
  }
  RQ_UNROLL for (int i = 0; i < kRows; ++i) StoreColumns(p, row + i, column, acc0[i], acc1[i]);
}

/// Multiplies one row by one group, straight from the codes. Scales apply to the sum of a block.
template <int kBits, bool kFused>
__attribute__((noinline)) void SingleRow(const MatMulNBitsParams* p, const float* a,
                                         const uint8_t* block, int32_t blocks, int32_t row,
                                         int32_t column) {
  v128_t y0 = wasm_f32x4_splat(0), y1 = y0;
  for (int32_t b = 0; b < blocks; ++b, block += BlockBytes(p->block, p->has_zero_points, kBits)) {
    const Steps<kBits> steps(p, block);
    const uint8_t* codes = block + HeaderBytes(p->has_zero_points);
    v128_t acc0[2], acc1[2];  // one chain of sums for even k, one for odd k
    RQ_UNROLL for (int i = 0; i < 2; ++i) acc0[i] = acc1[i] = wasm_f32x4_splat(0);
    for (int32_t k = 0; k < p->block; k += kStep, codes += steps.kBytes, a += kStep) {
      v128_t low[4], high[4];
      steps.Load(codes, low, high);
      RQ_UNROLL for (int i = 0; i < 4; ++i) {
        const v128_t x = wasm_v128_load32_splat(a + i);
        acc0[i % 2] = simd::MulAddF32<kFused>(x, low[i], acc0[i % 2]);
        acc1[i % 2] = simd::MulAddF32<kFused>(x, high[i], acc1[i % 2]);
      }
    }
    y0 = simd::MulAddF32<kFused>(wasm_f32x4_add(acc0[0], acc0[1]), wasm_v128_load(block), y0);
    y1 = simd::MulAddF32<kFused>(wasm_f32x4_add(acc1[0], acc1[1]), wasm_v128_load(block + 16), y1);
  }
  StoreColumns(p, row, column, y0, y1);
}

/// Copies rows of `a` and pads k by 0.
__attribute__((noinline)) void CopyPanel(const MatMulNBitsParams* p, int32_t row, int32_t count,
                                         ptrdiff_t lda, float* panel) {
  for (int32_t r = 0; r < count; ++r, panel += lda) {
    const float* from = p->a + static_cast<ptrdiff_t>(row + r) * p->k;
    ptrdiff_t k = 0;
    for (; k < p->k; ++k) panel[k] = from[k];
    for (; k < lda; ++k) panel[k] = 0;
  }
}

}  // namespace
}  // namespace requant

using namespace requant;
using namespace requant::nbits;

namespace {

template <int kBits, bool kFused>
__attribute__((noinline)) void Multiply(const MatMulNBitsParams* p) {
  const int32_t blocks = Blocks(p->k, p->block);
  const ptrdiff_t lda = static_cast<ptrdiff_t>(blocks) * p->block;
  const ptrdiff_t group_bytes = blocks * BlockBytes(p->block, p->has_zero_points, kBits);
  float* weights = static_cast<float*>(p->workspace);
  float* panel = weights + lda * kColumns;
  for (int32_t row = 0; row < p->rows; row += kPanelRows) {
    const int32_t count = p->rows - row < kPanelRows ? p->rows - row : kPanelRows;
    CopyPanel(p, row, count, lda, panel);
    for (int32_t group = p->begin; group < p->end; ++group) {
      const uint8_t* block = static_cast<const uint8_t*>(p->weights) + group * group_bytes;
      const int32_t column = group * kColumns;
      if (count < kFewRows) {
        for (int32_t r = 0; r < count; ++r) {
          SingleRow<kBits, kFused>(p, panel + r * lda, block, blocks, row + r, column);
        }
        continue;
      }
      Unpack<kBits>(p, block, blocks, weights);
      int32_t r = 0;
      for (; r + 4 <= count; r += 4)
        Tile<4, kFused>(p, panel + r * lda, lda, weights, row + r, column);
      for (; r < count; ++r) Tile<1, kFused>(p, panel + r * lda, lda, weights, row + r, column);
    }
  }
}

template <int kBits>
RQ_INLINE void MultiplyBits(const MatMulNBitsParams* p) {
  if (simd::kMayFuse && p->portable != 0) {
    Multiply<kBits, false>(p);
  } else {
    Multiply<kBits, true>(p);
  }
}

}  // namespace

void rq_matmul_nbits_f32(const MatMulNBitsParams* p) {
  if (p->bits == 8) {
    MultiplyBits<8>(p);
  } else {
    MultiplyBits<4>(p);
  }
}

#include "gradient/gemm.h"

#include "base/simd.h"
#include "gradient/kernel.h"

namespace requant::gradient {
namespace {

RQ_INLINE Size Least(Size a, Size b) { return a < b ? a : b; }

RQ_INLINE v128_t MulAdd(v128_t acc, v128_t a, v128_t b) {
  return simd::MulAddF32<false>(a, b, acc);
}

RQ_INLINE void Put(float* to, v128_t value, bool add) {
  wasm_v128_store(to, add ? wasm_f32x4_add(wasm_v128_load(to), value) : value);
}

/// Computes 4 x 8 products over one panel. `a` is packed as [depth][4], `b` as [depth][8].
RQ_INLINE void Tile(const float* a, const float* b, Size depth, float* c, Size c_step, bool add) {
  const v128_t zero = wasm_f32x4_splat(0);
  v128_t c00 = zero, c01 = zero, c10 = zero, c11 = zero;
  v128_t c20 = zero, c21 = zero, c30 = zero, c31 = zero;
  for (Size k = 0; k < depth; ++k) {
    const v128_t b0 = wasm_v128_load(b), b1 = wasm_v128_load(b + 4);
    const v128_t a0 = wasm_v128_load32_splat(a), a1 = wasm_v128_load32_splat(a + 1);
    const v128_t a2 = wasm_v128_load32_splat(a + 2), a3 = wasm_v128_load32_splat(a + 3);
    c00 = MulAdd(c00, a0, b0);
    c01 = MulAdd(c01, a0, b1);
    c10 = MulAdd(c10, a1, b0);
    c11 = MulAdd(c11, a1, b1);
    c20 = MulAdd(c20, a2, b0);
    c21 = MulAdd(c21, a2, b1);
    c30 = MulAdd(c30, a3, b0);
    c31 = MulAdd(c31, a3, b1);
    a += kGemmRows;
    b += kGemmColumns;
  }
  Put(c, c00, add), Put(c + 4, c01, add);
  c += c_step;
  Put(c, c10, add), Put(c + 4, c11, add);
  c += c_step;
  Put(c, c20, add), Put(c + 4, c21, add);
  c += c_step;
  Put(c, c30, add), Put(c + 4, c31, add);
}

/// Packs a strip of `filled` rows or columns of a matrix as [depth][kWide], with zeros behind the
/// last one. `step` leads from one row or column of the strip to the next, `deep_step` along the
/// depth.
template <Size kWide>
RQ_INLINE void Pack(const float* from, Size step, Size deep_step, Size filled, Size depth,
                    float* to) {
  Size k = 0;
  if (filled == kWide && step == 1) {
    for (; k < depth; ++k, to += kWide, from += deep_step) {
      wasm_v128_store(to, wasm_v128_load(from));
      if (kWide == 8) wasm_v128_store(to + 4, wasm_v128_load(from + 4));
    }
  } else if (filled == kWide && deep_step == 1) {
    for (; k + 4 <= depth; k += 4, to += 4 * kWide, from += 4) {
      RQ_UNROLL
      for (Size i = 0; i < kWide; i += 4) {
        const float* line = from + i * step;
        const v128_t l0 = wasm_v128_load(line), l1 = wasm_v128_load(line + step);
        const v128_t l2 = wasm_v128_load(line + 2 * step), l3 = wasm_v128_load(line + 3 * step);
        const v128_t a = wasm_i32x4_shuffle(l0, l1, 0, 4, 1, 5);
        const v128_t b = wasm_i32x4_shuffle(l0, l1, 2, 6, 3, 7);
        const v128_t c = wasm_i32x4_shuffle(l2, l3, 0, 4, 1, 5);
        const v128_t d = wasm_i32x4_shuffle(l2, l3, 2, 6, 3, 7);
        wasm_v128_store(to + i, wasm_i64x2_shuffle(a, c, 0, 2));
        wasm_v128_store(to + i + kWide, wasm_i64x2_shuffle(a, c, 1, 3));
        wasm_v128_store(to + i + 2 * kWide, wasm_i64x2_shuffle(b, d, 0, 2));
        wasm_v128_store(to + i + 3 * kWide, wasm_i64x2_shuffle(b, d, 1, 3));
      }
    }
  }
  for (; k < depth; ++k, to += kWide, from += deep_step) {
    for (Size i = 0; i < filled; ++i) to[i] = from[i * step];
    for (Size i = filled; i < kWide; ++i) to[i] = 0;
  }
}

}  // namespace

void Gemm(Size rows, Size columns, Size depth, const float* a, Size a_row_step, Size a_column_step,
          const float* b, Size b_row_step, Size b_column_step, float* c, Size c_step, bool add,
          float* scratch) {
  const Size blocks = (rows + kGemmRows - 1) / kGemmRows;
  float* panel = scratch;
  float* edge = panel + kGemmDepth * kGemmColumns;  // a tile that reaches beyond the matrix
  float* packed = edge + kGemmRows * kGemmColumns;
  Size k0 = 0;
  do {  // without depth, all products are 0
    const Size deep = Least(kGemmDepth, depth - k0);
    for (Size block = 0; block < blocks; ++block) {
      const Size row = block * kGemmRows;
      Pack<kGemmRows>(a + row * a_row_step + k0 * a_column_step, a_row_step, a_column_step,
                      Least(kGemmRows, rows - row), deep, packed + row * deep);
    }
    for (Size column = 0; column < columns; column += kGemmColumns) {
      const Size wide = Least(kGemmColumns, columns - column);
      Pack<kGemmColumns>(b + k0 * b_row_step + column * b_column_step, b_column_step, b_row_step,
                         wide, deep, panel);
      for (Size row = 0; row < rows; row += kGemmRows) {
        const Size filled = Least(kGemmRows, rows - row);
        const bool whole = filled == kGemmRows && wide == kGemmColumns;
        float* to = c + row * c_step + column;
        Tile(packed + row * deep, panel, deep, whole ? to : edge, whole ? c_step : kGemmColumns,
             whole && add);
        if (whole) continue;
        for (Size i = 0; i < filled; ++i) {
          for (Size j = 0; j < wide; ++j) {
            const float sum = edge[i * kGemmColumns + j];
            to[i * c_step + j] = add ? to[i * c_step + j] + sum : sum;
          }
        }
      }
    }
    k0 += kGemmDepth;
    add = true;
  } while (k0 < depth);
}

extern "C" void rq_batch_product(const ProductParams* p) {
  const Size first = static_cast<Size>(p->column_begin);
  const Size columns = static_cast<Size>(p->column_end) - first;
  for (Size sample = static_cast<Size>(p->begin); sample < static_cast<Size>(p->end); ++sample) {
    Gemm(static_cast<Size>(p->rows), columns, static_cast<Size>(p->depth), p->a[sample],
         static_cast<Size>(p->a_row_step), static_cast<Size>(p->a_column_step),
         p->b[sample] + first * static_cast<Size>(p->b_column_step),
         static_cast<Size>(p->b_row_step), static_cast<Size>(p->b_column_step),
         p->c[sample] + first, static_cast<Size>(p->c_step), p->add != 0, p->scratch);
  }
}

}  // namespace requant::gradient

#pragma once
// The transforms of a tile of 4 x 4 outputs: 36 instead of 144 products. Freestanding.
//
// Lavin and Gray's matrices (arXiv:1509.09308) for the points 0, 1, -1, 2, -2 and infinity; B^T is
// that of a column in winograd_tile_4x3.h.
//
//        6  0  0            1 -1 -1  1  1  0
//        4  4  4            0 -1  1  2 -2  0
//   G =  4 -4  4    A^T =   0 -1 -1  4  4  0
//        1  2  4            0 -1  1  8 -8  2
//        1 -2  4
//        0  0 12
//
// G's denominator 24 is taken out of it, and as much of what that leaves in A as int16 can hold is
// back in G: inputs grow by at most 100, weights by 144, and sums are 576 times the outputs.
#include "kernels/conv/winograd/winograd_tile_4x3.h"

namespace requant::conv {

/// A Tile as Tile4x3 is.
struct Tile4x4 {
  template <typename Op>
  RQ_INLINE void Column(const v128_t* d, v128_t* out) {
    Tile4x3::Column<Op>(d, out);
  }
  template <typename Op>
  RQ_INLINE void Line(const v128_t* c, v128_t add, v128_t add1, v128_t* out) {
    Column<Op>(c, out);
    RQ_UNROLL for (int j = 0; j < 6; ++j) out[j] = Op::Add(out[j], j == 1 ? add1 : add);
  }

  template <typename Op>
  RQ_INLINE void TapColumn(const v128_t* g, v128_t* out) {
    const v128_t twice0 = Op::Twice(g[0]), twice1 = Op::Twice(g[1]), twice2 = Op::Twice(g[2]);
    const v128_t four1 = Op::Twice(twice1), four2 = Op::Twice(twice2);
    const v128_t sum = Op::Add(Op::Twice(twice0), four2), far = Op::Add(g[0], four2);
    out[0] = Op::Add(Op::Twice(twice0), twice0);
    out[1] = Op::Add(sum, four1);
    out[2] = Op::Sub(sum, four1);
    out[3] = Op::Add(far, twice1);
    out[4] = Op::Sub(far, twice1);
    out[5] = Op::Add(Op::Twice(four2), four2);
  }
  template <typename Op>
  RQ_INLINE void TapLine(const v128_t* g, v128_t* out) {
    TapColumn<Op>(g, out);
  }

  RQ_INLINE void ProductColumn(const v128_t* m, v128_t* out) {
    const v128_t sum = wasm_i32x4_add(m[1], m[2]), less = wasm_i32x4_sub(m[1], m[2]);
    const v128_t far = wasm_i32x4_add(m[3], m[4]), far_less = wasm_i32x4_sub(m[3], m[4]);
    const v128_t last = wasm_i32x4_add(wasm_i32x4_shl(far_less, 2), m[5]);
    out[0] = wasm_i32x4_add(wasm_i32x4_sub(m[0], sum), far);
    out[1] = wasm_i32x4_sub(wasm_i32x4_shl(far_less, 1), less);
    out[2] = wasm_i32x4_sub(wasm_i32x4_shl(far, 2), sum);
    out[3] = wasm_i32x4_sub(wasm_i32x4_shl(last, 1), less);
  }
  RQ_INLINE void ProductLine(const v128_t* m, v128_t* out) { ProductColumn(m, out); }
  /// Divides by 576, which leaves no remainder: 0x38E38E39 is the inverse of 9 modulo 2^32.
  RQ_INLINE v128_t Output(v128_t sum) {
    return wasm_i32x4_shr(wasm_i32x4_mul(sum, wasm_i32x4_splat(0x38E38E39)), 6);
  }
};

}  // namespace requant::conv

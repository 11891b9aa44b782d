#pragma once
// The transforms of a tile of 4 x 3 outputs: 30 instead of 108 products. Freestanding.
//
// Lavin and Gray's matrices (arXiv:1509.09308) for the points 0, 1, -1, 2, -2 and infinity in a
// column, and by the same construction (Winograd 1980; see Barabasz et al., arXiv:1803.10986) for
// 0, 1, -1, 2 and infinity in a line:
//
//          4  0 -5  0  1  0           6  0  0           1 -2 -2  1  1  0
//          0 -4 -4  1  1  0           2  2  2           0 -2  2  2 -2  0
//   B^T =  0  4 -4 -1  1  0    G =    2 -2  2    A^T =  0 -2 -2  4  4  0
//          0 -2 -1  2  1  0           1  2  4           0 -2  2  8 -8  4
//          0  2 -1 -2  1  0           1 -2  4
//          0  4  0 -5  0  1           0  0  6
//
//          2 -1 -2  1  0              3  0  0
//          0 -2 -1  1  0              3  3  3           1 -1 -1  1  0
//   B^T =  0  2 -3  1  0       G =    1 -1  1    A^T =  0 -1  1  2  0
//          0 -1  0  1  0              1  2  4           0 -1 -1  4  1
//          0  2 -1 -2  1              0  0  6
//
// G's denominators are taken out of it, 24 and 6, and as much of what they leave in A as bytes can
// hold is back in G: inputs grow by at most 30 in either direction, weights by 63, and sums are 144
// times the outputs.
#include "kernels/conv/winograd/winograd.h"

namespace requant::conv {

/// A Tile as Tile2x2 is; Op also has TwiceAny, for codes.
struct Tile4x3 {
  template <typename Op>
  RQ_INLINE void Column(const v128_t* d, v128_t* out) {
    const v128_t d31 = Op::Sub(d[3], d[1]), d42 = Op::Sub(d[4], d[2]), d02 = Op::Sub(d[0], d[2]);
    const v128_t twice31 = Op::Twice(d31), sum = Op::Add(d[1], d[2]);
    out[0] = Op::Add(Op::Twice(Op::Twice(d02)), d42);
    out[1] = Op::Sub(Op::Sub(Op::Add(d31, d42), sum), Op::TwiceAny(sum));
    out[2] = Op::Add(Op::Twice(Op::Twice(Op::Sub(d[1], d[2]))), Op::Sub(d[4], d[3]));
    out[3] = Op::Add(d42, twice31);
    out[4] = Op::Sub(d42, twice31);
    out[5] = Op::Sub(Op::Sub(d[5], d[3]), Op::Twice(twice31));
  }
  template <typename Op>
  RQ_INLINE void Line(const v128_t* c, v128_t add, v128_t add1, v128_t* out) {
    const v128_t c31 = Op::Sub(c[3], c[1]), c02 = Op::Sub(c[0], c[2]), c12 = Op::Sub(c[1], c[2]);
    const v128_t more31 = Op::Add(c31, add);
    out[0] = Op::Add(more31, Op::Twice(c02));
    out[1] = Op::Sub(Op::Add(c31, add1), Op::Add(c[1], c[2]));
    out[2] = Op::Add(Op::Add(more31, c12), Op::Twice(c12));
    out[3] = more31;
    out[4] = Op::Add(Op::Sub(Op::Sub(c[4], c[2]), Op::Twice(c31)), add);
  }

  /// There is no TapColumn: vector_winograd_4x3_dot8.cpp looks up the first transform of taps.
  template <typename Op>
  RQ_INLINE void TapLine(const v128_t* g, v128_t* out) {
    const v128_t sum = Op::Add(g[0], g[2]), all = Op::Add(sum, g[1]);
    const v128_t twice2 = Op::Twice(g[2]), four2 = Op::Twice(twice2);
    out[0] = Op::Add(Op::Twice(g[0]), g[0]);
    out[1] = Op::Add(Op::Twice(all), all);
    out[2] = Op::Sub(sum, g[1]);
    out[3] = Op::Add(Op::Add(g[0], four2), Op::Twice(g[1]));
    out[4] = Op::Add(four2, twice2);
  }

  RQ_INLINE void ProductColumn(const v128_t* m, v128_t* out) {
    const v128_t sum = wasm_i32x4_add(m[1], m[2]), less = wasm_i32x4_sub(m[1], m[2]);
    const v128_t far = wasm_i32x4_add(m[3], m[4]), far_less = wasm_i32x4_sub(m[3], m[4]);
    const v128_t twice = wasm_i32x4_add(sum, sum), twice_less = wasm_i32x4_add(less, less);
    const v128_t twice_far = wasm_i32x4_add(far_less, far_less);
    out[0] = wasm_i32x4_add(wasm_i32x4_sub(m[0], twice), far);
    out[1] = wasm_i32x4_sub(twice_far, twice_less);
    out[2] = wasm_i32x4_sub(wasm_i32x4_shl(far, 2), twice);
    out[3] = wasm_i32x4_sub(wasm_i32x4_shl(wasm_i32x4_add(twice_far, m[5]), 2), twice_less);
  }
  RQ_INLINE void ProductLine(const v128_t* m, v128_t* out) {
    const v128_t sum = wasm_i32x4_add(m[1], m[2]), twice3 = wasm_i32x4_add(m[3], m[3]);
    out[0] = wasm_i32x4_sub(wasm_i32x4_add(m[0], m[3]), sum);
    out[1] = wasm_i32x4_add(wasm_i32x4_sub(m[2], m[1]), twice3);
    out[2] = wasm_i32x4_sub(wasm_i32x4_add(wasm_i32x4_add(twice3, twice3), m[4]), sum);
  }
  /// Divides by 144, which leaves no remainder: 0x38E38E39 is the inverse of 9 modulo 2^32.
  RQ_INLINE v128_t Output(v128_t sum) {
    return wasm_i32x4_shr(wasm_i32x4_mul(sum, wasm_i32x4_splat(0x38E38E39)), 4);
  }
};

}  // namespace requant::conv

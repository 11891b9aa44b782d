#pragma once
// The transforms of a tile of 2 x 2 outputs: 16 instead of 36 products. Freestanding.
//
// Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (arXiv:1509.09308), section
// 4.1:
//
//          1  0 -1  0            2  0  0            1  1  1  0
//   B^T =  0  1  1  0     2 G =  1  1  1    A^T =   0  1 -1 -1
//          0 -1  1  0            1 -1  1
//          0  1  0 -1            0  0  2
#include "kernels/conv/winograd/winograd.h"

namespace requant::conv {

/// A Tile as winograd_tiles.h uses it. Op has Add, Sub and Twice for its operands, which here are
/// weights or differences of codes.
struct Tile2x2 {
  /// B^T times a column of inputs.
  template <typename Op>
  RQ_INLINE void Column(const v128_t* d, v128_t* out) {
    out[0] = Op::Sub(d[0], d[2]);
    out[1] = Op::Add(d[1], d[2]);
    out[2] = Op::Sub(d[2], d[1]);
    out[3] = Op::Sub(d[1], d[3]);
  }
  /// B^T times a line, plus `add`, or plus `add1` at the second point, which alone keeps a constant
  /// input nonzero.
  template <typename Op>
  RQ_INLINE void Line(const v128_t* c, v128_t add, v128_t add1, v128_t* out) {
    const v128_t c2 = Op::Add(c[2], add);
    out[0] = Op::Sub(Op::Add(c[0], add), c[2]);
    out[1] = Op::Add(Op::Add(c[1], add1), c[2]);
    out[2] = Op::Sub(c2, c[1]);
    out[3] = Op::Add(Op::Sub(c[1], c[3]), add);
  }

  /// 2 G times a column of taps.
  template <typename Op>
  RQ_INLINE void TapColumn(const v128_t* g, v128_t* out) {
    const v128_t sum = Op::Add(g[0], g[2]);
    out[0] = Op::Twice(g[0]);
    out[1] = Op::Add(sum, g[1]);
    out[2] = Op::Sub(sum, g[1]);
    out[3] = Op::Twice(g[2]);
  }
  template <typename Op>
  RQ_INLINE void TapLine(const v128_t* g, v128_t* out) {
    TapColumn<Op>(g, out);
  }

  /// A^T times a column of products.
  RQ_INLINE void ProductColumn(const v128_t* m, v128_t* out) {
    out[0] = wasm_i32x4_add(wasm_i32x4_add(m[0], m[1]), m[2]);
    out[1] = wasm_i32x4_sub(wasm_i32x4_sub(m[1], m[2]), m[3]);
  }
  RQ_INLINE void ProductLine(const v128_t* m, v128_t* out) { ProductColumn(m, out); }
  RQ_INLINE v128_t Output(v128_t sum) { return wasm_i32x4_shr(sum, 2); }
};

}  // namespace requant::conv

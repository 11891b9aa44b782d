#pragma once
// The transforms of a tile of 2 x 2 outputs of windows with a stride of 2: 25 instead of 36
// products. Freestanding.
//
// In either direction a window of three is a window of two on the even inputs, with the taps g0 and
// g2, and a window of one on the odd inputs, with g1:
//
//   inputs     d0   d1   d2   d3   d4
//   output 0   g0   g1   g2
//   output 1             g0   g1   g2
//
// For the even inputs Winograd's F(2, 2) (Winograd 1980, for the points 0, 1 and infinity) takes
// three products instead of four for two outputs; the odd inputs take two:
//
//          1  0 -1  0  0          1  0  0
//          0  0  1  0  0          1  0  1            1  1  0  1  0
//   B^T =  0  0 -1  0  1    G =   0  0  1    A^T =   0  1  1  0  1
//          0  1  0  0  0          0  1  0
//          0  0  0  1  0          0  1  0
//
// Nothing has to be divided: sums are the outputs. The last two points have equal weights.
#include "kernels/conv/winograd/winograd.h"

namespace requant::conv {

/// A Tile as Tile2x2 is.
struct TileStrided {
  template <typename Op>
  RQ_INLINE void Column(const v128_t* d, v128_t* out) {
    out[0] = Op::Sub(d[0], d[2]);
    out[1] = d[2];
    out[2] = Op::Sub(d[4], d[2]);
    out[3] = d[1];
    out[4] = d[3];
  }
  template <typename Op>
  RQ_INLINE void Line(const v128_t* c, v128_t add, v128_t add_alike, v128_t* out) {
    const v128_t less2 = Op::Sub(add, c[2]);
    out[0] = Op::Add(c[0], less2);
    out[1] = Op::Add(c[2], add_alike);
    out[2] = Op::Add(c[4], less2);
    out[3] = Op::Add(c[1], add_alike);
    out[4] = Op::Add(c[3], add_alike);
  }

  template <typename Op>
  RQ_INLINE void TapColumn(const v128_t* g, v128_t* out) {
    out[0] = g[0];
    out[1] = Op::Add(g[0], g[2]);
    out[2] = g[2];
    out[3] = g[1];
  }
  template <typename Op>
  RQ_INLINE void TapLine(const v128_t* g, v128_t* out) {
    TapColumn<Op>(g, out);
  }

  RQ_INLINE void ProductColumn(const v128_t* m, v128_t* out) {
    out[0] = wasm_i32x4_add(wasm_i32x4_add(m[0], m[1]), m[3]);
    out[1] = wasm_i32x4_add(wasm_i32x4_add(m[1], m[2]), m[4]);
  }
  RQ_INLINE void ProductLine(const v128_t* m, v128_t* out) { ProductColumn(m, out); }
  RQ_INLINE v128_t Output(v128_t sum) { return sum; }
};

}  // namespace requant::conv

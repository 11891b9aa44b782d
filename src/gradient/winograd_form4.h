#pragma once
// F(4 x 4, 3 x 3): 36 multiplications for sixteen outputs (Lavin and Gray, arXiv 1509.09308,
// section 4.2). Freestanding.
#include "gradient/winograd_form.h"

namespace requant::gradient {

struct Form4 {
  static constexpr Size kOut = 4;      ///< outputs of a tile along a side
  static constexpr Size kPoints = 36;  ///< (kOut + 2)^2

  struct Line {
    v128_t v0, v1, v2, v3, v4, v5;
  };
  struct Quad {
    v128_t v0, v1, v2, v3;
  };

  RQ_INLINE void StoreLine(float* to, Size step, const Line& line) {
    wasm_v128_store(to, line.v0), wasm_v128_store(to + step, line.v1);
    wasm_v128_store(to + 2 * step, line.v2), wasm_v128_store(to + 3 * step, line.v3);
    wasm_v128_store(to + 4 * step, line.v4), wasm_v128_store(to + 5 * step, line.v5);
  }

  /// Lanes of the operands as rows of a matrix become its columns.
  RQ_INLINE Quad Turn(v128_t a, v128_t b, v128_t c, v128_t d) {
    const v128_t ab = wasm_i32x4_shuffle(a, b, 0, 4, 1, 5);
    const v128_t cd = wasm_i32x4_shuffle(c, d, 0, 4, 1, 5);
    const v128_t ab2 = wasm_i32x4_shuffle(a, b, 2, 6, 3, 7);
    const v128_t cd2 = wasm_i32x4_shuffle(c, d, 2, 6, 3, 7);
    return {wasm_i64x2_shuffle(ab, cd, 0, 2), wasm_i64x2_shuffle(ab, cd, 1, 3),
            wasm_i64x2_shuffle(ab2, cd2, 0, 2), wasm_i64x2_shuffle(ab2, cd2, 1, 3)};
  }
  RQ_INLINE Quad LoadQuad(const float* line) {
    return Turn(wasm_v128_load(line), wasm_v128_load(line + 4), wasm_v128_load(line + 8),
                wasm_v128_load(line + 12));
  }

  /// Rows of B^T applied to six numbers.
  RQ_INLINE Line OfInput(v128_t d0, v128_t d1, v128_t d2, v128_t d3, v128_t d4, v128_t d5) {
    const v128_t a = Sub(d4, Times(4, d2)), b = Sub(d3, Times(4, d1));
    const v128_t c = Sub(d4, d2), half = Sub(d3, d1), e = Add(half, half);
    return {Add(Sub(Times(4, d0), Times(5, d2)), d4), Add(a, b), Sub(a, b), Add(c, e), Sub(c, e),
            Add(Sub(Times(4, d1), Times(5, d3)), d5)};
  }
  /// B^T of pixels 4t to 4t + 5 of a line, of four tiles t.
  RQ_INLINE Line OfLine(const float* line) {
    const Quad q = LoadQuad(line);
    const v128_t next = wasm_v128_load(line + 16);
    return OfInput(q.v0, q.v1, q.v2, q.v3, wasm_i32x4_shuffle(q.v0, next, 1, 2, 3, 4),
                   wasm_i32x4_shuffle(q.v1, next, 1, 2, 3, 5));
  }

  /// Writes B^T d B of four tiles, whose points are `step` floats apart. Lines of the tiles are
  /// `wide` floats apart.
  RQ_INLINE void Inputs(const float* from, Size wide, float* to, Size step) {
    const Line a = OfLine(from), b = OfLine(from + wide), c = OfLine(from + 2 * wide);
    const Line d = OfLine(from + 3 * wide), e = OfLine(from + 4 * wide);
    const Line f = OfLine(from + 5 * wide);
    const Size down = 6 * step;  // from a point to the one below it
    StoreLine(to, down, OfInput(a.v0, b.v0, c.v0, d.v0, e.v0, f.v0));
    StoreLine(to + step, down, OfInput(a.v1, b.v1, c.v1, d.v1, e.v1, f.v1));
    StoreLine(to + 2 * step, down, OfInput(a.v2, b.v2, c.v2, d.v2, e.v2, f.v2));
    StoreLine(to + 3 * step, down, OfInput(a.v3, b.v3, c.v3, d.v3, e.v3, f.v3));
    StoreLine(to + 4 * step, down, OfInput(a.v4, b.v4, c.v4, d.v4, e.v4, f.v4));
    StoreLine(to + 5 * step, down, OfInput(a.v5, b.v5, c.v5, d.v5, e.v5, f.v5));
  }

  /// A of four numbers.
  RQ_INLINE Line OfGradient(const Quad& y) {
    const v128_t even = Add(y.v0, y.v2), odd = Add(y.v1, y.v3);
    const v128_t even2 = Add(y.v0, Times(4, y.v2)), odd2 = Add(Times(2, y.v1), Times(8, y.v3));
    return {y.v0, Add(even, odd), Sub(even, odd), Add(even2, odd2), Sub(even2, odd2), y.v3};
  }

  /// Writes A dY A^T of four tiles.
  RQ_INLINE void Gradients(const float* from, Size wide, float* to, Size step) {
    const Line a = OfGradient(LoadQuad(from)), b = OfGradient(LoadQuad(from + wide));
    const Line c = OfGradient(LoadQuad(from + 2 * wide)), d = OfGradient(LoadQuad(from + 3 * wide));
    const Size down = 6 * step;
    StoreLine(to, down, OfGradient({a.v0, b.v0, c.v0, d.v0}));
    StoreLine(to + step, down, OfGradient({a.v1, b.v1, c.v1, d.v1}));
    StoreLine(to + 2 * step, down, OfGradient({a.v2, b.v2, c.v2, d.v2}));
    StoreLine(to + 3 * step, down, OfGradient({a.v3, b.v3, c.v3, d.v3}));
    StoreLine(to + 4 * step, down, OfGradient({a.v4, b.v4, c.v4, d.v4}));
    StoreLine(to + 5 * step, down, OfGradient({a.v5, b.v5, c.v5, d.v5}));
  }

  /// A^T of six points.
  RQ_INLINE Quad OfPoints(v128_t m0, v128_t m1, v128_t m2, v128_t m3, v128_t m4, v128_t m5) {
    const v128_t s = Add(m1, m2), u = Sub(m1, m2), v = Add(m3, m4), w = Sub(m3, m4);
    return {Add(Add(m0, s), v), Add(u, Add(w, w)), Add(s, Times(4, v)),
            Add(Add(u, Times(8, w)), m5)};
  }
  RQ_INLINE Quad Column(const float* points, Size step) {
    const Size down = 6 * step;
    return OfPoints(wasm_v128_load(points), wasm_v128_load(points + down),
                    wasm_v128_load(points + 2 * down), wasm_v128_load(points + 3 * down),
                    wasm_v128_load(points + 4 * down), wasm_v128_load(points + 5 * down));
  }
  RQ_INLINE void StoreQuad(float* to, const Quad& quad, v128_t bias) {
    const Quad turned = Turn(quad.v0, quad.v1, quad.v2, quad.v3);
    wasm_v128_store(to, Add(turned.v0, bias)), wasm_v128_store(to + 4, Add(turned.v1, bias));
    wasm_v128_store(to + 8, Add(turned.v2, bias)), wasm_v128_store(to + 12, Add(turned.v3, bias));
  }
  /// Writes A^T M A of four tiles, and their bias, to lines that are `wide` floats apart.
  RQ_INLINE void Outputs(const float* points, Size step, v128_t bias, float* to, Size wide) {
    const Quad a = Column(points, step), b = Column(points + step, step);
    const Quad c = Column(points + 2 * step, step), d = Column(points + 3 * step, step);
    const Quad e = Column(points + 4 * step, step), f = Column(points + 5 * step, step);
    StoreQuad(to, OfPoints(a.v0, b.v0, c.v0, d.v0, e.v0, f.v0), bias);
    StoreQuad(to + wide, OfPoints(a.v1, b.v1, c.v1, d.v1, e.v1, f.v1), bias);
    StoreQuad(to + 2 * wide, OfPoints(a.v2, b.v2, c.v2, d.v2, e.v2, f.v2), bias);
    StoreQuad(to + 3 * wide, OfPoints(a.v3, b.v3, c.v3, d.v3, e.v3, f.v3), bias);
  }

  struct Points {
    float p0, p1, p2, p3, p4, p5;
  };
  /// G of three numbers.
  RQ_INLINE Points Spread(float a, float b, float c) {
    const float sum = (a + c) * (-1.0F / 6), mid = b * (-1.0F / 6);
    const float far = (a + 4 * c) * (1.0F / 24), side = b * (1.0F / 12);
    return {0.25F * a, sum + mid, sum - mid, far + side, far - side, c};
  }
  /// Writes G g G^T of a kernel, whose taps are `by` floats apart (-1: from the last to the first).
  RQ_INLINE void Taps(const float* g, Size by, float* to, Size step) {
    const Points a = Spread(g[0], g[3 * by], g[6 * by]);
    const Points b = Spread(g[by], g[4 * by], g[7 * by]);
    const Points c = Spread(g[2 * by], g[5 * by], g[8 * by]);
    const auto put = [&](const Points& x) {
      to[0] = x.p0, to[step] = x.p1, to[2 * step] = x.p2;
      to[3 * step] = x.p3, to[4 * step] = x.p4, to[5 * step] = x.p5;
      to += 6 * step;
    };
    put(Spread(a.p0, b.p0, c.p0));
    put(Spread(a.p1, b.p1, c.p1));
    put(Spread(a.p2, b.p2, c.p2));
    put(Spread(a.p3, b.p3, c.p3));
    put(Spread(a.p4, b.p4, c.p4));
    put(Spread(a.p5, b.p5, c.p5));
  }

  struct Three {
    float t0, t1, t2;
  };
  /// G^T of six numbers.
  RQ_INLINE Three Gather(float a, float b, float c, float d, float e, float f) {
    const float near = (b + c) * (-1.0F / 6), far = d + e;
    return {0.25F * a + near + far * (1.0F / 24), (c - b) * (1.0F / 6) + (d - e) * (1.0F / 12),
            near + far * (1.0F / 6) + f};
  }
  RQ_INLINE Three GatherColumn(const float* s, Size step) {
    const Size down = 6 * step;
    return Gather(s[0], s[down], s[2 * down], s[3 * down], s[4 * down], s[5 * down]);
  }
  /// Adds G^T S G to the nine taps of a kernel.
  RQ_INLINE void AddTaps(const float* s, Size step, float* w) {
    const Three a = GatherColumn(s, step), b = GatherColumn(s + step, step);
    const Three c = GatherColumn(s + 2 * step, step), d = GatherColumn(s + 3 * step, step);
    const Three e = GatherColumn(s + 4 * step, step), f = GatherColumn(s + 5 * step, step);
    const auto add = [&](float p, float q, float r, float t, float u, float v) {
      const Three line = Gather(p, q, r, t, u, v);
      w[0] += line.t0, w[1] += line.t1, w[2] += line.t2;
      w += 3;
    };
    add(a.t0, b.t0, c.t0, d.t0, e.t0, f.t0);
    add(a.t1, b.t1, c.t1, d.t1, e.t1, f.t1);
    add(a.t2, b.t2, c.t2, d.t2, e.t2, f.t2);
  }
};

}  // namespace requant::gradient

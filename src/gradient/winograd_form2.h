#pragma once
// F(2 x 2, 3 x 3): 16 multiplications for four outputs (Lavin and Gray, arXiv 1509.09308, section
// 4.1). Freestanding.
#include "gradient/winograd_form.h"

namespace requant::gradient {

struct Form2 {
  static constexpr Size kOut = 2;      ///< outputs of a tile along a side
  static constexpr Size kPoints = 16;  ///< (kOut + 2)^2

  struct Line {
    v128_t v0, v1, v2, v3;
  };

  RQ_INLINE void StoreLine(float* to, Size step, const Line& line) {
    wasm_v128_store(to, line.v0), wasm_v128_store(to + step, line.v1);
    wasm_v128_store(to + 2 * step, line.v2), wasm_v128_store(to + 3 * step, line.v3);
  }

  /// Pixels 2t, 2t + 1, 2t + 2 and 2t + 3 of four tiles t.
  RQ_INLINE Line LoadLine(const float* line) {
    const v128_t a = wasm_v128_load(line), b = wasm_v128_load(line + 4);
    const v128_t c = wasm_v128_load(line + 8);
    const v128_t even = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6);
    const v128_t odd = wasm_i32x4_shuffle(a, b, 1, 3, 5, 7);
    return {even, odd, wasm_i32x4_shuffle(even, c, 1, 2, 3, 4),
            wasm_i32x4_shuffle(odd, c, 1, 2, 3, 5)};
  }

  /// B^T of four numbers.
  RQ_INLINE Line OfInput(v128_t d0, v128_t d1, v128_t d2, v128_t d3) {
    return {Sub(d0, d2), Add(d1, d2), Sub(d2, d1), Sub(d1, d3)};
  }

  /// Writes B^T d B of four tiles, whose points are `step` floats apart. Lines of the tiles are
  /// `wide` floats apart.
  RQ_INLINE void Inputs(const float* from, Size wide, float* to, Size step) {
    const Line a = LoadLine(from), b = LoadLine(from + wide);
    const Line c = LoadLine(from + 2 * wide), d = LoadLine(from + 3 * wide);
    const Line x0 = OfInput(a.v0, b.v0, c.v0, d.v0), x1 = OfInput(a.v1, b.v1, c.v1, d.v1);
    const Line x2 = OfInput(a.v2, b.v2, c.v2, d.v2), x3 = OfInput(a.v3, b.v3, c.v3, d.v3);
    StoreLine(to, step, OfInput(x0.v0, x1.v0, x2.v0, x3.v0));
    StoreLine(to + 4 * step, step, OfInput(x0.v1, x1.v1, x2.v1, x3.v1));
    StoreLine(to + 8 * step, step, OfInput(x0.v2, x1.v2, x2.v2, x3.v2));
    StoreLine(to + 12 * step, step, OfInput(x0.v3, x1.v3, x2.v3, x3.v3));
  }

  /// A of two numbers.
  RQ_INLINE Line OfGradient(v128_t y0, v128_t y1) {
    return {y0, Add(y0, y1), Sub(y0, y1), wasm_f32x4_neg(y1)};
  }

  /// Writes A dY A^T of four tiles.
  RQ_INLINE void Gradients(const float* from, Size wide, float* to, Size step) {
    const v128_t a = wasm_v128_load(from), b = wasm_v128_load(from + 4);
    const v128_t c = wasm_v128_load(from + wide), d = wasm_v128_load(from + wide + 4);
    const Line left =
        OfGradient(wasm_i32x4_shuffle(a, b, 0, 2, 4, 6), wasm_i32x4_shuffle(c, d, 0, 2, 4, 6));
    const Line right =
        OfGradient(wasm_i32x4_shuffle(a, b, 1, 3, 5, 7), wasm_i32x4_shuffle(c, d, 1, 3, 5, 7));
    StoreLine(to, step, OfGradient(left.v0, right.v0));
    StoreLine(to + 4 * step, step, OfGradient(left.v1, right.v1));
    StoreLine(to + 8 * step, step, OfGradient(left.v2, right.v2));
    StoreLine(to + 12 * step, step, OfGradient(left.v3, right.v3));
  }

  struct Pair {
    v128_t v0, v1;
  };
  /// A^T of four points.
  RQ_INLINE Pair OfPoints(v128_t m0, v128_t m1, v128_t m2, v128_t m3) {
    return {Add(Add(m0, m1), m2), Sub(Sub(m1, m2), m3)};
  }
  RQ_INLINE Pair Column(const float* points, Size step) {
    return OfPoints(wasm_v128_load(points), wasm_v128_load(points + 4 * step),
                    wasm_v128_load(points + 8 * step), wasm_v128_load(points + 12 * step));
  }
  RQ_INLINE void StorePair(float* to, const Pair& pair, v128_t bias) {
    const v128_t even = Add(pair.v0, bias), odd = Add(pair.v1, bias);
    wasm_v128_store(to, wasm_i32x4_shuffle(even, odd, 0, 4, 1, 5));
    wasm_v128_store(to + 4, wasm_i32x4_shuffle(even, odd, 2, 6, 3, 7));
  }
  /// Writes A^T M A of four tiles, and their bias, to lines that are `wide` floats apart.
  RQ_INLINE void Outputs(const float* points, Size step, v128_t bias, float* to, Size wide) {
    const Pair c0 = Column(points, step), c1 = Column(points + step, step);
    const Pair c2 = Column(points + 2 * step, step), c3 = Column(points + 3 * step, step);
    StorePair(to, OfPoints(c0.v0, c1.v0, c2.v0, c3.v0), bias);
    StorePair(to + wide, OfPoints(c0.v1, c1.v1, c2.v1, c3.v1), bias);
  }

  struct Points {
    float p0, p1, p2, p3;
  };
  /// G of three numbers.
  RQ_INLINE Points Spread(float a, float b, float c) {
    return {a, 0.5F * (a + b + c), 0.5F * (a - b + c), c};
  }
  /// Writes G g G^T of a kernel, whose taps are `by` floats apart (-1: from the last to the first).
  RQ_INLINE void Taps(const float* g, Size by, float* to, Size step) {
    const Points a = Spread(g[0], g[3 * by], g[6 * by]);
    const Points b = Spread(g[by], g[4 * by], g[7 * by]);
    const Points c = Spread(g[2 * by], g[5 * by], g[8 * by]);
    const auto put = [&](const Points& x) {
      to[0] = x.p0, to[step] = x.p1, to[2 * step] = x.p2, to[3 * step] = x.p3;
      to += 4 * step;
    };
    put(Spread(a.p0, b.p0, c.p0));
    put(Spread(a.p1, b.p1, c.p1));
    put(Spread(a.p2, b.p2, c.p2));
    put(Spread(a.p3, b.p3, c.p3));
  }

  struct Three {
    float t0, t1, t2;
  };
  /// G^T of four numbers.
  RQ_INLINE Three Gather(float a, float b, float c, float d) {
    return {a + 0.5F * (b + c), 0.5F * (b - c), 0.5F * (b + c) + d};
  }
  RQ_INLINE Three GatherColumn(const float* s, Size step) {
    return Gather(s[0], s[4 * step], s[8 * step], s[12 * step]);
  }
  /// Adds G^T S G to the nine taps of a kernel.
  RQ_INLINE void AddTaps(const float* s, Size step, float* w) {
    const Three a = GatherColumn(s, step), b = GatherColumn(s + step, step);
    const Three c = GatherColumn(s + 2 * step, step), d = GatherColumn(s + 3 * step, step);
    const auto add = [&](float p, float q, float r, float t) {
      const Three line = Gather(p, q, r, t);
      w[0] += line.t0, w[1] += line.t1, w[2] += line.t2;
      w += 3;
    };
    add(a.t0, b.t0, c.t0, d.t0);
    add(a.t1, b.t1, c.t1, d.t1);
    add(a.t2, b.t2, c.t2, d.t2);
  }
};

}  // namespace requant::gradient

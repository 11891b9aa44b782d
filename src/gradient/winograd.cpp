#include "gradient/winograd.h"

#include "base/simd.h"

namespace requant::gradient {
namespace {

constexpr Size kPoints = 16;
constexpr int64_t kLeastChannels = 4;
/// Weights whose sums, 16 for 9, are more than these floats are not filtered, for the sake of
/// memory.
constexpr int64_t kMostSums = int64_t{1} << 22;

RQ_INLINE v128_t Add(v128_t a, v128_t b) { return wasm_f32x4_add(a, b); }
RQ_INLINE v128_t Sub(v128_t a, v128_t b) { return wasm_f32x4_sub(a, b); }

/// Floats from one point of the tiles to the next. The points of a tile would lie in the same set
/// of the cache if the distance were a large power of two.
RQ_INLINE int64_t StepOf(int64_t numbers) { return numbers + 16; }

/// Copies `lines` lines from line `first` of a plane, with zeros around the plane; pixel 0 of a
/// copied line is pixel -left of the plane.
RQ_INLINE void PadLines(const float* plane, Size height, Size width, Size first, Size lines,
                        Size left, Size wide, float* to) {
  // The part of a copied line that lies inside of the plane.
  const Size begin = left < 0 ? 0 : left < wide ? left : wide;
  const Size last = width + left < wide ? width + left : wide;
  for (Size line = first; line < first + lines; ++line, to += wide) {
    const bool inside = line >= 0 && line < height;
    const Size end = inside && last > begin ? last : begin;
    Size i = 0;
    for (; i < begin; ++i) to[i] = 0;
    const float* from = plane + line * width - left;
    for (; i + 4 <= end; i += 4) wasm_v128_store(to + i, wasm_v128_load(from + i));
    for (; i < end; ++i) to[i] = from[i];
    for (; i < wide; ++i) to[i] = 0;
  }
}

struct Four {
  v128_t v0, v1, v2, v3;
};

RQ_INLINE void StorePoints(float* to, Size step, const Four& points) {
  wasm_v128_store(to, points.v0), wasm_v128_store(to + step, points.v1);
  wasm_v128_store(to + 2 * step, points.v2), wasm_v128_store(to + 3 * step, points.v3);
}

/// Pixels 2t, 2t + 1, 2t + 2 and 2t + 3 of four tiles t.
RQ_INLINE Four LoadTiles(const float* line) {
  const v128_t a = wasm_v128_load(line), b = wasm_v128_load(line + 4);
  const v128_t c = wasm_v128_load(line + 8);
  const v128_t even = wasm_i32x4_shuffle(a, b, 0, 2, 4, 6);
  const v128_t odd = wasm_i32x4_shuffle(a, b, 1, 3, 5, 7);
  return {even, odd, wasm_i32x4_shuffle(even, c, 1, 2, 3, 4),
          wasm_i32x4_shuffle(odd, c, 1, 2, 3, 5)};
}

/// B^T of four numbers.
RQ_INLINE Four TransformInput(v128_t d0, v128_t d1, v128_t d2, v128_t d3) {
  return {Sub(d0, d2), Add(d1, d2), Sub(d2, d1), Sub(d1, d3)};
}

/// Writes B^T d B of the tiles of one plane of the band, whose points are `step` floats apart.
RQ_INLINE void TransformPlane(const float* padded, const Tiles& tiles, float* to, Size step) {
  const Size wide = tiles.width();
  for (Size line = 0; line < tiles.band; ++line) {
    for (Size tile = 0; tile < tiles.columns; tile += 4, to += 4) {
      const float* from = padded + 2 * line * wide + 2 * tile;
      const Four a = LoadTiles(from), b = LoadTiles(from + wide);
      const Four c = LoadTiles(from + 2 * wide), d = LoadTiles(from + 3 * wide);
      const Four x0 = TransformInput(a.v0, b.v0, c.v0, d.v0);
      const Four x1 = TransformInput(a.v1, b.v1, c.v1, d.v1);
      const Four x2 = TransformInput(a.v2, b.v2, c.v2, d.v2);
      const Four x3 = TransformInput(a.v3, b.v3, c.v3, d.v3);
      const Four y0 = TransformInput(x0.v0, x1.v0, x2.v0, x3.v0);
      const Four y1 = TransformInput(x0.v1, x1.v1, x2.v1, x3.v1);
      const Four y2 = TransformInput(x0.v2, x1.v2, x2.v2, x3.v2);
      const Four y3 = TransformInput(x0.v3, x1.v3, x2.v3, x3.v3);
      StorePoints(to, step, y0), StorePoints(to + 4 * step, step, y1);
      StorePoints(to + 8 * step, step, y2), StorePoints(to + 12 * step, step, y3);
    }
  }
}

/// A of two numbers.
RQ_INLINE Four TransformGradient(v128_t y0, v128_t y1) {
  return {y0, Add(y0, y1), Sub(y0, y1), wasm_f32x4_neg(y1)};
}

/// Writes A dY A^T of the tiles of one plane of the band, whose points are `step` floats apart.
RQ_INLINE void TransformGradientPlane(const float* padded, const Tiles& tiles, float* to,
                                      Size step) {
  const Size wide = tiles.width();
  for (Size line = 0; line < tiles.band; ++line) {
    for (Size tile = 0; tile < tiles.columns; tile += 4, to += 4) {
      const float* from = padded + 2 * line * wide + 2 * tile;
      const v128_t a = wasm_v128_load(from), b = wasm_v128_load(from + 4);
      const v128_t c = wasm_v128_load(from + wide), d = wasm_v128_load(from + wide + 4);
      const Four left = TransformGradient(wasm_i32x4_shuffle(a, b, 0, 2, 4, 6),
                                          wasm_i32x4_shuffle(c, d, 0, 2, 4, 6));
      const Four right = TransformGradient(wasm_i32x4_shuffle(a, b, 1, 3, 5, 7),
                                           wasm_i32x4_shuffle(c, d, 1, 3, 5, 7));
      const Four y0 = TransformGradient(left.v0, right.v0);
      const Four y1 = TransformGradient(left.v1, right.v1);
      const Four y2 = TransformGradient(left.v2, right.v2);
      const Four y3 = TransformGradient(left.v3, right.v3);
      StorePoints(to, step, y0), StorePoints(to + 4 * step, step, y1);
      StorePoints(to + 8 * step, step, y2), StorePoints(to + 12 * step, step, y3);
    }
  }
}

struct Two {
  v128_t v0, v1;
};

/// A^T of four points.
RQ_INLINE Two TransformOutput(v128_t m0, v128_t m1, v128_t m2, v128_t m3) {
  return {Add(Add(m0, m1), m2), Sub(Sub(m1, m2), m3)};
}

/// A^T of the four points of a column.
RQ_INLINE Two LoadColumn(const float* points, Size step) {
  return TransformOutput(wasm_v128_load(points), wasm_v128_load(points + 4 * step),
                         wasm_v128_load(points + 8 * step), wasm_v128_load(points + 12 * step));
}

/// Writes eight neighboring pixels of a line, as far as it reaches.
RQ_INLINE void StorePixels(float* line, Size at, Size width, v128_t even, v128_t odd,
                           float* eight) {
  const v128_t low = wasm_i32x4_shuffle(even, odd, 0, 4, 1, 5);
  const v128_t high = wasm_i32x4_shuffle(even, odd, 2, 6, 3, 7);
  if (at + 8 <= width) {
    wasm_v128_store(line + at, low), wasm_v128_store(line + at + 4, high);
    return;
  }
  wasm_v128_store(eight, low), wasm_v128_store(eight + 4, high);
  for (Size i = 0; at + i < width; ++i) line[at + i] = eight[i];
}

/// Writes A^T M A of the tiles of one plane of the band, which begins at output line `first`.
RQ_INLINE void TransformOutputs(const float* points, Size step, const Tiles& tiles, Size first,
                                Size height, Size width, float bias, float* plane, float* eight) {
  const v128_t wide_bias = wasm_f32x4_splat(bias);
  for (Size line = 0; line < tiles.band; ++line) {
    const Size y = first + 2 * line;
    for (Size tile = 0; tile < tiles.columns; tile += 4, points += 4) {
      if (y >= height || 2 * tile >= width) continue;
      const Two c0 = LoadColumn(points, step), c1 = LoadColumn(points + step, step);
      const Two c2 = LoadColumn(points + 2 * step, step), c3 = LoadColumn(points + 3 * step, step);
      const Two top = TransformOutput(c0.v0, c1.v0, c2.v0, c3.v0);
      const Two low = TransformOutput(c0.v1, c1.v1, c2.v1, c3.v1);
      float* to = plane + y * width;
      StorePixels(to, 2 * tile, width, Add(top.v0, wide_bias), Add(top.v1, wide_bias), eight);
      if (y + 1 >= height) continue;
      StorePixels(to + width, 2 * tile, width, Add(low.v0, wide_bias), Add(low.v1, wide_bias),
                  eight);
    }
  }
}

struct Points {
  float p0, p1, p2, p3;
};
/// G of three numbers.
RQ_INLINE Points Spread(float a, float b, float c) {
  return {a, 0.5f * (a + b + c), 0.5f * (a - b + c), c};
}

/// G g G^T of one kernel, whose points are `step` floats apart. `turn` is 0, or 8 to read the taps
/// from the last to the first.
RQ_INLINE void TransformTaps(const float* g, Size turn, float* to, Size step) {
  const Size by = turn == 0 ? 1 : -1;
  g += turn;
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
  return {a + 0.5f * (b + c), 0.5f * (b - c), 0.5f * (b + c) + d};
}
/// G^T of the four points of a column.
RQ_INLINE Three GatherColumn(const float* points, Size step) {
  return Gather(points[0], points[4 * step], points[8 * step], points[12 * step]);
}

/// The distances of what the functions below lay out, and the scratch of a band's tiles.
struct Layout {
  Tiles tiles;
  Size count, lines;  // tiles of a band, and the lines that they read
  Size weights, in, out;
  float *eight, *padded, *inputs, *outputs, *gemm;

  RQ_MEMBER Layout(Size in_channels, Size out_channels, Size height, Size width, float* scratch)
      : tiles(TilesOf(height, width)),
        count(tiles.count()),
        lines(2 * tiles.band + 2),
        weights(static_cast<Size>(WeightStep(out_channels, in_channels))),
        in(static_cast<Size>(StepOf(in_channels * count))),
        out(static_cast<Size>(StepOf(out_channels * count))),
        eight(scratch),
        padded(eight + 8),
        inputs(padded + lines * tiles.width()),
        outputs(inputs + kPoints * in),
        gemm(outputs + kPoints * out) {}
};

/// Writes B^T d B of the tiles of all channels of an image, from its line `first` on.
RQ_INLINE void TransformImage(const Layout& at, const float* image, Size channels, Size height,
                              Size width, Size first, Size left) {
  for (Size channel = 0; channel < channels; ++channel) {
    PadLines(image + channel * height * width, height, width, first, at.lines, left,
             at.tiles.width(), at.padded);
    TransformPlane(at.padded, at.tiles, at.inputs + channel * at.count, at.in);
  }
}

}  // namespace

bool FitsWinograd(const Windows& windows, int64_t rows, int64_t channels) {
  if (windows.in[0] != 1 || windows.out[0] != 1 || windows.kernel[0] != 1 ||
      windows.begin[0] != 0) {
    return false;
  }
  for (int axis = 1; axis < 3; ++axis) {
    const int64_t begin = windows.begin[axis];
    if (windows.kernel[axis] != 3 || windows.stride[axis] != 1 || windows.dilation[axis] != 1 ||
        begin < 0 || begin > 2) {
      return false;
    }
  }
  return rows >= kLeastChannels && channels >= kLeastChannels && rows * channels <= kMostSums / 16;
}

int64_t WinogradScratch(Size height, Size width, int64_t from, int64_t to) {
  const Tiles tiles = TilesOf(height, width);
  const int64_t lines = int64_t{2 * tiles.band + 2} * tiles.width();
  const int64_t count = int64_t{tiles.band} * tiles.columns;
  return lines + kPoints * (StepOf(count * from) + StepOf(count * to)) + 8 + GemmScratch(to);
}

void TransformWeights(const float* weights, Size to, Size from, float* transformed) {
  const auto step = static_cast<Size>(WeightStep(to, from));
  for (Size i = 0; i < to * from; ++i) {
    TransformTaps(weights + 9 * i, 0, transformed + i, step);
  }
}

void TransformTurned(const float* weights, Size to, Size from, float* transformed) {
  const auto step = static_cast<Size>(WeightStep(to, from));
  for (Size row = 0; row < to; ++row) {
    for (Size column = 0; column < from; ++column) {
      TransformTaps(weights + 9 * (column * to + row), 8, transformed + row * from + column, step);
    }
  }
}

void WinogradOutputs(Size in_channels, Size in_height, Size in_width, Size out_channels,
                     Size out_height, Size out_width, Size top, Size left, const float* image,
                     const float* weights, const float* bias, float* to, float* scratch) {
  const Layout at(in_channels, out_channels, out_height, out_width, scratch);
  for (Size line = 0; line < at.tiles.lines; line += at.tiles.band) {
    TransformImage(at, image, in_channels, in_height, in_width, 2 * line - top, left);
    for (Size point = 0; point < kPoints; ++point) {
      Gemm(out_channels, at.count, in_channels, weights + point * at.weights, in_channels, 1,
           at.inputs + point * at.in, at.count, 1, at.outputs + point * at.out, at.count, false,
           at.gemm);
    }
    for (Size channel = 0; channel < out_channels; ++channel) {
      TransformOutputs(at.outputs + channel * at.count, at.out, at.tiles, 2 * line, out_height,
                       out_width, bias ? bias[channel] : 0, to + channel * out_height * out_width,
                       at.eight);
    }
  }
}

void WinogradSums(Size in_channels, Size in_height, Size in_width, Size out_channels,
                  Size out_height, Size out_width, Size top, Size left, const float* image,
                  const float* gradient, float* sums, float* scratch) {
  const Layout at(in_channels, out_channels, out_height, out_width, scratch);
  for (Size line = 0; line < at.tiles.lines; line += at.tiles.band) {
    TransformImage(at, image, in_channels, in_height, in_width, 2 * line - top, left);
    for (Size channel = 0; channel < out_channels; ++channel) {
      PadLines(gradient + channel * out_height * out_width, out_height, out_width, 2 * line,
               at.lines, 0, at.tiles.width(), at.padded);
      TransformGradientPlane(at.padded, at.tiles, at.outputs + channel * at.count, at.out);
    }
    for (Size point = 0; point < kPoints; ++point) {
      Gemm(out_channels, in_channels, at.count, at.outputs + point * at.out, at.count, 1,
           at.inputs + point * at.in, 1, at.count, sums + point * at.weights, in_channels, true,
           at.gemm);
    }
  }
}

void AddWeightGradient(const float* sums, Size to, Size from, float* dw, Size dw_step) {
  const auto step = static_cast<Size>(WeightStep(to, from));
  for (Size row = 0; row < to; ++row) {
    for (Size column = 0; column < from; ++column) {
      const float* s = sums + row * from + column;
      const Three a = GatherColumn(s, step), b = GatherColumn(s + step, step);
      const Three c = GatherColumn(s + 2 * step, step), d = GatherColumn(s + 3 * step, step);
      float* w = dw + row * dw_step + 9 * column;
      const auto add = [&](float p, float q, float r, float t) {
        const Three line = Gather(p, q, r, t);
        w[0] += line.t0, w[1] += line.t1, w[2] += line.t2;
        w += 3;
      };
      add(a.t0, b.t0, c.t0, d.t0);
      add(a.t1, b.t1, c.t1, d.t1);
      add(a.t2, b.t2, c.t2, d.t2);
    }
  }
}

}  // namespace requant::gradient

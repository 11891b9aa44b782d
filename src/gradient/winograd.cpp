#include "gradient/winograd.h"

#include "base/simd.h"
#include "gradient/winograd_form2.h"
#include "gradient/winograd_form4.h"

namespace requant::gradient {
namespace {

constexpr int64_t kLeastChannels = 4;
/// Weights whose sums are more than these floats are not filtered, for the sake of memory.
constexpr int64_t kMostSums = int64_t{1} << 23;
/// Points of a band for each channel: their transforms stay in the second cache.
constexpr Size kPointsOfBand = 4096;

/// What WinogradOutputs() takes.
struct Geometry {
  Size in_channels, in_height, in_width;
  Size out_channels, out_height, out_width;
  Size top, left;
};

/// The tiles of a convolution's output, in bands of whole lines of tiles.
struct Tiles {
  Size lines, columns;  // columns are a multiple of 4
  Size band;            // lines of tiles in a band
  RQ_MEMBER Size count() const { return band * columns; }
};

template <typename Form>
RQ_INLINE Tiles TilesOf(Size height, Size width) {
  const Size lines = (height + Form::kOut - 1) / Form::kOut;
  const Size columns = ((width + Form::kOut - 1) / Form::kOut + 3) / 4 * 4;
  const Size most = kPointsOfBand / Form::kPoints / (columns < 1 ? 1 : columns);
  return {lines, columns, most < 1 ? 1 : most < lines ? most : lines};
}

/// Floats from one point of the tiles to the next. The points of a tile would lie in the same set
/// of the cache if the distance were a large power of two.
RQ_INLINE int64_t StepOf(int64_t numbers) { return numbers + 16; }

/// Copies `lines` lines from line `first` of a plane, with zeros around the plane; pixel 0 of a
/// copied line is pixel -left of the plane.
void PadLines(const float* plane, Size height, Size width, Size first, Size lines, Size left,
              Size wide, float* to) {
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

/// The distances of what the functions below lay out, and the scratch of a band's tiles.
template <typename Form>
struct Layout {
  Tiles tiles;
  Size count, lines, wide;  // tiles of a band; the lines that they read, and floats of a line
  Size weights, in, out;
  static constexpr Size kBlock = 4 * Form::kOut * Form::kOut;  // outputs of four tiles
  float *block, *padded, *inputs, *outputs, *gemm;

  RQ_MEMBER Layout(const Geometry& g, float* scratch)
      : tiles(TilesOf<Form>(g.out_height, g.out_width)),
        count(tiles.count()),
        lines(Form::kOut * tiles.band + 2),
        wide(Form::kOut * tiles.columns + 4),
        weights(static_cast<Size>(WeightStep(g.out_channels, g.in_channels))),
        in(static_cast<Size>(StepOf(g.in_channels * count))),
        out(static_cast<Size>(StepOf(g.out_channels * count))),
        block(scratch),
        padded(block + kBlock),
        inputs(padded + lines * wide),
        outputs(inputs + Form::kPoints * in),
        gemm(outputs + Form::kPoints * out) {}

  /// Floats of the scratch, for outputs of this size.
  static int64_t Scratch(Size height, Size width, int64_t from, int64_t to) {
    const Tiles tiles = TilesOf<Form>(height, width);
    const int64_t lines = Form::kOut * tiles.band + 2, wide = Form::kOut * tiles.columns + 4;
    const int64_t count = tiles.count();
    return lines * wide + Form::kPoints * (StepOf(count * from) + StepOf(count * to)) + kBlock +
           GemmScratch(to);
  }
};

/// Writes B^T d B of the tiles of one plane of a band, whose points are `step` floats apart.
template <typename Form>
void TransformPlane(const float* padded, Size band, Size columns, float* to, Size step) {
  const Size wide = Form::kOut * columns + 4;
  for (Size line = 0; line < band; ++line) {
    for (Size tile = 0; tile < columns; tile += 4, to += 4) {
      Form::Inputs(padded + Form::kOut * (line * wide + tile), wide, to, step);
    }
  }
}

/// Writes A dY A^T of the tiles of one plane of a band, whose points are `step` floats apart.
template <typename Form>
void TransformGradients(const float* padded, Size band, Size columns, float* to, Size step) {
  const Size wide = Form::kOut * columns + 4;
  for (Size line = 0; line < band; ++line) {
    for (Size tile = 0; tile < columns; tile += 4, to += 4) {
      Form::Gradients(padded + Form::kOut * (line * wide + tile), wide, to, step);
    }
  }
}

/// Writes A^T M A of the tiles of one plane of a band, which begins at output line `first`. A block
/// of tiles that reaches beyond the plane goes through `block`.
template <typename Form>
void TransformOutputs(const float* points, Size step, Size band, Size columns, float bias,
                      float* plane, Size height, Size width, Size first, float* block) {
  constexpr Size kWide = 4 * Form::kOut;
  const v128_t add = wasm_f32x4_splat(bias);
  for (Size y = first; y < first + Form::kOut * band; y += Form::kOut) {
    for (Size x = 0; x < Form::kOut * columns; x += kWide, points += 4) {
      float* to = plane + y * width + x;
      const bool whole = y + Form::kOut <= height && x + kWide <= width;
      Form::Outputs(points, step, add, whole ? to : block, whole ? width : kWide);
      if (whole) continue;
      for (Size line = 0; line < Form::kOut && y + line < height; ++line) {
        for (Size i = 0; i < kWide && x + i < width; ++i)
          to[line * width + i] = block[line * kWide + i];
      }
    }
  }
}

/// Transforms the tiles of all channels of an image, from line `first` of the tiles on.
template <typename Form>
RQ_INLINE void TransformImage(const Layout<Form>& at, const Geometry& g, const float* image,
                              Size first) {
  for (Size channel = 0; channel < g.in_channels; ++channel) {
    PadLines(image + channel * g.in_height * g.in_width, g.in_height, g.in_width,
             Form::kOut * first - g.top, at.lines, g.left, at.wide, at.padded);
    TransformPlane<Form>(at.padded, at.tiles.band, at.tiles.columns, at.inputs + channel * at.count,
                         at.in);
  }
}

template <typename Form>
RQ_INLINE void Outputs(const Geometry& g, const float* image, const float* weights,
                       const float* bias, float* to, float* scratch) {
  const Layout<Form> at(g, scratch);
  for (Size first = 0; first < at.tiles.lines; first += at.tiles.band) {
    TransformImage(at, g, image, first);
    for (Size point = 0; point < Form::kPoints; ++point) {
      Gemm(g.out_channels, at.count, g.in_channels, weights + point * at.weights, g.in_channels, 1,
           at.inputs + point * at.in, at.count, 1, at.outputs + point * at.out, at.count, false,
           at.gemm);
    }
    for (Size channel = 0; channel < g.out_channels; ++channel) {
      TransformOutputs<Form>(at.outputs + channel * at.count, at.out, at.tiles.band,
                             at.tiles.columns, bias ? bias[channel] : 0,
                             to + channel * g.out_height * g.out_width, g.out_height, g.out_width,
                             Form::kOut * first, at.block);
    }
  }
}

template <typename Form>
RQ_INLINE void Sums(const Geometry& g, const float* image, const float* gradient, float* sums,
                    float* scratch) {
  const Layout<Form> at(g, scratch);
  for (Size first = 0; first < at.tiles.lines; first += at.tiles.band) {
    TransformImage(at, g, image, first);
    for (Size channel = 0; channel < g.out_channels; ++channel) {
      PadLines(gradient + channel * g.out_height * g.out_width, g.out_height, g.out_width,
               Form::kOut * first, at.lines, 0, at.wide, at.padded);
      TransformGradients<Form>(at.padded, at.tiles.band, at.tiles.columns,
                               at.outputs + channel * at.count, at.out);
    }
    for (Size point = 0; point < Form::kPoints; ++point) {
      Gemm(g.out_channels, g.in_channels, at.count, at.outputs + point * at.out, at.count, 1,
           at.inputs + point * at.in, 1, at.count, sums + point * at.weights, g.in_channels, true,
           at.gemm);
    }
  }
}

/// Transforms weights of `to` x `from` kernels. Kernel (row, column) begins row * row_step + column
/// * column_step floats behind the first, and its taps are `by` floats apart.
template <typename Form>
void Transform(const float* weights, Size row_step, Size column_step, Size by, Size to, Size from,
               float* transformed) {
  const auto step = static_cast<Size>(WeightStep(to, from));
  for (Size row = 0; row < to; ++row) {
    for (Size column = 0; column < from; ++column) {
      Form::Taps(weights + row * row_step + column * column_step, by,
                 transformed + row * from + column, step);
    }
  }
}

RQ_INLINE void Transform(Size form, const float* weights, Size row_step, Size column_step, Size by,
                         Size to, Size from, float* transformed) {
  if (form == Form4::kOut) {
    return Transform<Form4>(weights, row_step, column_step, by, to, from, transformed);
  }
  Transform<Form2>(weights, row_step, column_step, by, to, from, transformed);
}

template <typename Form>
void AddTaps(const float* sums, Size to, Size from, float* dw, Size dw_step) {
  const auto step = static_cast<Size>(WeightStep(to, from));
  for (Size row = 0; row < to; ++row) {
    for (Size column = 0; column < from; ++column) {
      Form::AddTaps(sums + row * from + column, step, dw + row * dw_step + 9 * column);
    }
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
  return rows >= kLeastChannels && channels >= kLeastChannels &&
         rows * channels <= kMostSums / Form4::kPoints;
}

Size FormOf(Size height, Size width) {
  const Tiles two = TilesOf<Form2>(height, width), four = TilesOf<Form4>(height, width);
  const Size products = two.lines * two.columns * Form2::kPoints;
  return four.lines * four.columns * Form4::kPoints < products ? Form4::kOut : Form2::kOut;
}

int64_t WinogradScratch(Size height, Size width, int64_t from, int64_t to) {
  return FormOf(height, width) == Form4::kOut ? Layout<Form4>::Scratch(height, width, from, to)
                                              : Layout<Form2>::Scratch(height, width, from, to);
}

int64_t WeightFloats(Size form, int64_t to, int64_t from) {
  return (form == Form4::kOut ? Form4::kPoints : Form2::kPoints) * WeightStep(to, from);
}

void TransformWeights(Size form, const float* weights, Size to, Size from, float* transformed) {
  Transform(form, weights, 9 * from, 9, 1, to, from, transformed);
}

void TransformTurned(Size form, const float* weights, Size to, Size from, float* transformed) {
  Transform(form, weights + 8, 9, 9 * to, -1, to, from, transformed);
}

void WinogradOutputs(Size in_channels, Size in_height, Size in_width, Size out_channels,
                     Size out_height, Size out_width, Size top, Size left, const float* image,
                     const float* weights, const float* bias, float* to, float* scratch) {
  const Geometry geometry{in_channels, in_height, in_width, out_channels,
                          out_height,  out_width, top,      left};
  if (FormOf(out_height, out_width) == Form4::kOut) {
    return Outputs<Form4>(geometry, image, weights, bias, to, scratch);
  }
  Outputs<Form2>(geometry, image, weights, bias, to, scratch);
}

void WinogradSums(Size in_channels, Size in_height, Size in_width, Size out_channels,
                  Size out_height, Size out_width, Size top, Size left, const float* image,
                  const float* gradient, float* sums, float* scratch) {
  const Geometry geometry{in_channels, in_height, in_width, out_channels,
                          out_height,  out_width, top,      left};
  if (FormOf(out_height, out_width) == Form4::kOut) {
    return Sums<Form4>(geometry, image, gradient, sums, scratch);
  }
  Sums<Form2>(geometry, image, gradient, sums, scratch);
}

void AddWeightGradient(Size form, const float* sums, Size to, Size from, float* dw, Size dw_step) {
  if (form == Form4::kOut) return AddTaps<Form4>(sums, to, from, dw, dw_step);
  AddTaps<Form2>(sums, to, from, dw, dw_step);
}

}  // namespace requant::gradient

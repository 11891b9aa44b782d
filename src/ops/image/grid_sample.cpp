// GridSample: samples x [N, C, spatial...] at the positions of a grid [N, out spatial..., rank],
// last coordinate first (onnx docs/Operators.md). Where ONNX leaves something open, it follows ONNX
// Runtime.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/elementwise.h"
#include "ops/infer_util.h"
#include "ops/normalization/normalize.h"
#include "ops/table.h"

namespace requant {
namespace {

enum class SampleMode : uint8_t { kLinear, kNearest, kCubic };
enum class SamplePadding : uint8_t { kZeros, kBorder, kReflection };

struct SampleForm {
  SampleMode mode;
  SamplePadding padding;
  bool align;
};

SampleForm FormOfGridSample(const Node& node) {
  const std::string mode = node.attributes.String("mode", "linear");
  const std::string padding = node.attributes.String("padding_mode", "zeros");
  SampleForm form{SampleMode::kLinear, SamplePadding::kZeros,
                  node.attributes.Int("align_corners", 0) != 0};
  if (mode == "nearest") {
    form.mode = SampleMode::kNearest;
  } else if (mode == "bicubic" || mode == "cubic") {
    form.mode = SampleMode::kCubic;
  } else if (mode != "bilinear" && mode != "linear") {
    Fail(ErrorCode::kInvalidModel, StrCat("GridSample mode '", mode, "' does not exist"));
  }
  if (padding == "border") {
    form.padding = SamplePadding::kBorder;
  } else if (padding == "reflection") {
    form.padding = SamplePadding::kReflection;
  } else if (padding != "zeros") {
    Fail(ErrorCode::kInvalidModel, StrCat("padding_mode '", padding, "' does not exist"));
  }
  return form;
}

void InferGridSample(InferContext& context) {
  RequireFloat(context, 0);
  RequireFloat(context, 1);
  FormOfGridSample(context.node);
  std::optional<SymbolicShape> shape;
  if (context.shape(0) && context.shape(1)) {
    const SymbolicShape& x = *context.shape(0);
    const SymbolicShape& grid = *context.shape(1);
    if (x.size() != grid.size() || x.size() < 3 || x.size() > 5) {
      Fail(ErrorCode::kUnsupported,
           StrCat("GridSample of rank ", x.size(), " with a grid of rank ", grid.size()));
    }
    shape = grid;
    shape->pop_back();
    shape->insert(shape->begin() + 1, x[1]);
    (*shape)[0] = MergeDims(x[0], grid[0], "batches of GridSample");
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

double Reflect(double x, double low, double high) {
  const double range = high - low;
  if (range <= 0) return low;
  if (x < low) {
    const double distance = low - x;
    const auto turns = std::floor(distance / range);
    const double rest = distance - turns * range;
    return std::fmod(turns, 2) == 0 ? low + rest : high - rest;
  }
  if (x > high) {
    const double distance = x - high;
    const auto turns = std::floor(distance / range);
    const double rest = distance - turns * range;
    return std::fmod(turns, 2) == 0 ? high - rest : low + rest;
  }
  return x;
}

/// The taps of one coordinate along one axis: indices (-1: zero) and weights.
struct AxisTaps {
  int count;
  int64_t at[4];
  double weight[4];
};

AxisTaps TapsOf(double coordinate, int64_t size, const SampleForm& form) {
  const auto length = static_cast<double>(size);
  const double low = form.align ? 0 : -0.5;
  const double high = form.align ? length - 1 : length - 0.5;
  double x = form.align ? (coordinate + 1) / 2 * (length - 1) : ((coordinate + 1) * length - 1) / 2;
  if (form.mode == SampleMode::kNearest) x = std::nearbyint(x);
  if (x < low || x > high) {
    // Cubic taps are clamped to the border one by one.
    const bool held = form.padding == SamplePadding::kBorder && form.mode != SampleMode::kCubic;
    if (held) x = std::clamp(x, 0.0, length - 1);
    if (form.padding == SamplePadding::kReflection) x = Reflect(x, low, high);
  }
  AxisTaps taps{1, {}, {1}};
  double first = std::nearbyint(x);
  if (form.mode != SampleMode::kNearest) {
    first = std::floor(x);
    const double t = x - first;
    if (form.mode == SampleMode::kLinear) {
      taps = {2, {}, {1 - t, t}};
    } else {
      // Cubic convolution with a = -0.75.
      constexpr double a = -0.75;
      const auto far = [](double d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
      const auto near = [](double d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
      taps = {4, {}, {far(t + 1), near(t), near(1 - t), far(2 - t)}};
      first -= 1;
    }
  }
  for (int i = 0; i < taps.count; ++i) {
    double at = first + i;
    taps.at[i] = -1;
    if (!(std::fabs(at) < 1e15)) continue;
    if (form.padding == SamplePadding::kBorder) at = std::clamp(at, 0.0, length - 1);
    if (form.padding == SamplePadding::kReflection) at = Reflect(at, low, high);
    if (at >= 0 && at <= length - 1) taps.at[i] = static_cast<int64_t>(at);
  }
  return taps;
}

constexpr int64_t kMostAxes = 3;

/// The taps of a chunk of points, `count` each; taps outside the image (-1) do not count.
struct Taps {
  int64_t count = 1;
  std::vector<int64_t> at;
  std::vector<double> weight;
};

/// Writes the taps of a point, which are the products of those along each axis.
void CombineTaps(const AxisTaps* axes, const int64_t* sizes, int64_t rank, int64_t from,
                 double factor, int64_t*& at, double*& weight) {
  if (rank == 0) {
    *at++ = from;
    *weight++ = factor;
    return;
  }
  for (int i = 0; i < axes->count; ++i) {
    const bool outside = from < 0 || axes->at[i] < 0;
    CombineTaps(axes + 1, sizes + 1, rank - 1, outside ? -1 : from * *sizes + axes->at[i],
                factor * axes->weight[i], at, weight);
  }
}

/// The taps of `points` points.
void FillTaps(const SampleForm& form, const Shape& shape, const double* grid, int64_t points,
              Taps& taps) {
  const int64_t axes = static_cast<int64_t>(shape.size()) - 2;
  const int64_t* sizes = shape.data() + 2;
  int64_t* at = taps.at.data();
  double* weight = taps.weight.data();
  for (int64_t p = 0; p < points; ++p, grid += axes) {
    AxisTaps along[kMostAxes];
    for (int64_t k = 0; k < axes; ++k) along[k] = TapsOf(grid[axes - 1 - k], sizes[k], form);
    CombineTaps(along, sizes, axes, 0, 1, at, weight);
  }
}

/// to[i] = the sum of the taps of point i in a plane.
template <typename T>
void SamplePlane(const Taps& taps, const T* plane, int64_t points, T* to) {
  const int64_t* at = taps.at.data();
  const double* weight = taps.weight.data();
  const int64_t count = taps.count;
  for (int64_t i = 0; i < points; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < count; ++k, ++at, ++weight) {
      if (*at >= 0) sum += *weight * static_cast<double>(plane[*at]);
    }
    to[i] = static_cast<T>(sum);
  }
}

void EvaluateGridSample(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& grid = context.input(1);
  const SampleForm form = FormOfGridSample(context.node);
  const int64_t axes = x.rank() - 2;
  if (axes < 1 || axes > kMostAxes || grid.rank() != x.rank() ||
      grid.dim(grid.rank() - 1) != axes || grid.dim(0) != x.dim(0)) {
    Fail(ErrorCode::kShapeMismatch, StrCat("GridSample of ", ShapeToString(x.shape()),
                                           " with a grid of ", ShapeToString(grid.shape())));
  }
  Shape shape(grid.shape().begin(), grid.shape().end() - 1);
  shape.insert(shape.begin() + 1, x.dim(1));
  Tensor out = context.Output(0, x.dtype(), shape);
  const std::vector<double> coordinates = Doubles(grid);
  const int64_t images = x.dim(0);
  const int64_t channels = x.dim(1);
  const int64_t planes = images * channels;
  const int64_t plane = planes > 0 ? x.count() / planes : 0;
  const int64_t points = planes > 0 ? out.count() / planes : 0;
  // Channels are sampled one after the other at a chunk of points, so that reads stay close
  // together and positions are computed once.
  constexpr int64_t kChunk = 256;
  Taps taps;
  for (int64_t k = 0; k < axes; ++k) {
    taps.count *= form.mode == SampleMode::kNearest ? 1 : form.mode == SampleMode::kLinear ? 2 : 4;
  }
  taps.at.resize(static_cast<size_t>(kChunk * taps.count));
  taps.weight.resize(taps.at.size());
  for (int64_t n = 0; n < images; ++n) {
    for (int64_t begin = 0; begin < points; begin += kChunk) {
      const int64_t some = std::min(points - begin, kChunk);
      FillTaps(form, x.shape(), coordinates.data() + (n * points + begin) * axes, some, taps);
      VisitFloat(x.dtype(), [&](auto tag) {
        using T = decltype(tag);
        for (int64_t c = n * channels; c < (n + 1) * channels; ++c) {
          SamplePlane(taps, x.data<T>() + c * plane, some, out.data<T>() + c * points + begin);
        }
      });
    }
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"GridSample", "", 16, 2, 2, 1, InferGridSample, EvaluateGridSample, QuantRule::kFloat},
    {"GridSample", "com.microsoft", 1, 2, 2, 1, InferGridSample, EvaluateGridSample,
     QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> GridSampleOps() { return kRows; }

}  // namespace requant

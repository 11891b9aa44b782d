// DeformConv: a convolution whose taps are moved by offsets to positions between the pixels
// (bilinear, 0 outside the image) and multiplied by a mask (onnx docs/Operators.md, DeformConv-19;
// Dai et al. 2017, "Deformable Convolutional Networks", Zhu et al. 2019 for the mask).
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/elementwise/float_loops.h"
#include "ops/infer_util.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

namespace requant {
namespace {

constexpr size_t kOffset = 2, kBias = 3, kMask = 4;

/// The output's shape [N, M, height, width]; weights and bias may be null. Throws what
/// ConvOutputShape throws, and kUnsupported for anything but images.
SymbolicShape DeformedShape(const AttributeMap& attributes, const SymbolicShape& x,
                            const SymbolicShape* weight, const SymbolicShape* bias) {
  if (x.size() != 4) {
    Fail(ErrorCode::kUnsupported, StrCat("DeformConv of ", x.size(), " dimensions, not 4"));
  }
  return ConvOutputShape(attributes, x, weight, bias);
}

/// The shapes of the inputs. An input that is left out has no dimensions; a scalar, which no input
/// may be, is read as a vector.
using InputShapes = std::array<Shape, 5>;
Shape AtLeastVector(const Shape& shape) { return shape.empty() ? Shape{1} : shape; }

/// The number of channel groups with offsets of their own. Throws kInvalidModel, or kShapeMismatch
/// when offsets [N, 2 * groups * taps, height, width] or the mask [N, groups * taps, height, width]
/// do not fit.
int64_t OffsetGroups(const AttributeMap& attributes, const InputShapes& in, Shape out) {
  const int64_t groups = attributes.Int("offset_group", 1);
  if (groups < 1 || in[0][1] % groups != 0) {
    Fail(ErrorCode::kInvalidModel, StrCat("offset_group ", groups, " of ", in[0][1], " channels"));
  }
  out[1] = CheckedMul64(in[1][2] * in[1][3], groups);
  const bool masked = in[kMask].empty() || in[kMask] == out;
  out[1] = CheckedMul64(out[1], 2);
  if (!masked || in[kOffset] != out) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("DeformConv needs offsets of ", ShapeToString(out), " (a mask: half of it)"));
  }
  return groups;
}

void InferDeformConv(InferContext& context) {
  std::optional<SymbolicShape> shape;
  if (const SymbolicShape* x = context.shape(0)) {
    shape = DeformedShape(context.attributes(), *x, context.shape(1), context.shape(kBias));
  }
  SetOutput(context, 0, DType::kFloat32, std::move(shape));
  InputShapes in;
  bool known = true;
  for (size_t slot = 0; slot < context.inputs.size(); ++slot) {
    RequireDType(context, slot, {DType::kFloat32});
    if (!context.has(slot)) continue;
    known = known && context.inputs[slot].IsStatic();
    if (known) in[slot] = AtLeastVector(context.inputs[slot].StaticShape());
  }
  if (known) OffsetGroups(context.attributes(), in, context.outputs[0].StaticShape());
}

/// The four elements of a plane that a tap reads, and their weights (0 outside the plane).
struct Sample {
  int64_t at[4];
  float weight[4];
};

Sample SampleAt(double y, double x, int64_t height, int64_t width, double factor) {
  Sample sample{};
  // The comparison is false for NaN, too.
  if (!(y > -1 && y < static_cast<double>(height) && x > -1 && x < static_cast<double>(width))) {
    return sample;
  }
  const double top = std::floor(y), left = std::floor(x);
  for (int i = 0; i < 4; ++i) {
    const double row = top + (i > 1 ? 1 : 0), column = left + i % 2;
    if (row < 0 || row >= static_cast<double>(height) || column < 0 ||
        column >= static_cast<double>(width)) {
      continue;
    }
    sample.at[i] = static_cast<int64_t>(row) * width + static_cast<int64_t>(column);
    sample.weight[i] =
        static_cast<float>(factor * (1 - std::fabs(y - row)) * (1 - std::fabs(x - column)));
  }
  return sample;
}

/// Computes an image's outputs a chunk at a time, which keeps the columns [C * taps, chunk] that
/// the weights multiply small.
constexpr int64_t kChunk = float_loops::kColumns;

struct Deformation {
  const Geometry& g;
  int64_t channels, offset_groups;
  const float *x, *offset, *mask;  // of one image; the mask may be null

  int64_t taps() const { return g.kernel_size(); }

  /// Fills the columns of outputs [begin, begin + count).
  void Sampled(int64_t begin, int64_t count, float* columns) const {
    const int64_t each = channels / offset_groups;
    const int64_t outputs = g.output_size();
    std::vector<Sample> samples(static_cast<size_t>(count));
    for (int64_t row = 0; row < offset_groups * taps(); ++row) {
      const int64_t tap = row % taps();
      for (int64_t i = 0; i < count; ++i) {
        const int64_t place = begin + i;
        const int64_t h = place / g.output[2] * g.stride[1] + tap / g.kernel[2] * g.dilation[1];
        const int64_t w = place % g.output[2] * g.stride[2] + tap % g.kernel[2] * g.dilation[2];
        samples[static_cast<size_t>(i)] = SampleAt(
            static_cast<double>(h - g.pad_begin[1]) + offset[2 * row * outputs + place],
            static_cast<double>(w - g.pad_begin[2]) + offset[(2 * row + 1) * outputs + place],
            g.input[1], g.input[2], mask ? mask[row * outputs + place] : 1.0F);
      }
      for (int64_t c = row / taps() * each; c < (row / taps() + 1) * each; ++c) {
        const float* plane = x + c * g.input_size();
        float* to = columns + (c * taps() + tap) * kChunk;
        for (const Sample& s : samples) {
          *to++ = s.weight[0] * plane[s.at[0]] + s.weight[1] * plane[s.at[1]] +
                  s.weight[2] * plane[s.at[2]] + s.weight[3] * plane[s.at[3]];
        }
      }
    }
  }
};

void EvaluateDeformConv(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& weight = context.input(1);
  const Tensor& offset = context.input(kOffset);
  const float* bias = context.has(kBias) ? context.input(kBias).data<float>() : nullptr;
  const float* mask = context.has(kMask) ? context.input(kMask).data<float>() : nullptr;
  InputShapes in;
  for (size_t slot = 0; slot < in.size(); ++slot) {
    if (context.has(slot)) in[slot] = AtLeastVector(context.input(slot).shape());
  }
  const SymbolicShape weight_shape = ToSymbolic(in[1]);
  const SymbolicShape bias_shape = ToSymbolic(in[kBias]);
  const ValueType type{DType::kFloat32, DeformedShape(context.attributes(), ToSymbolic(in[0]),
                                                      &weight_shape, bias ? &bias_shape : nullptr)};
  Tensor out = context.Output(0, DType::kFloat32, type.StaticShape());
  const int64_t offset_groups = OffsetGroups(context.attributes(), in, out.shape());
  context.outputs[0] = out;
  if (out.count() == 0) return;
  const Geometry g = PlaceGeometry(ConvWindow(context.attributes(), weight.shape()), x.shape());
  const int64_t channels_out = out.dim(1);
  const int64_t outputs = g.output_size();
  const int64_t each = channels_out / context.attributes().Int("group", 1);
  const int64_t depth = weight.dim(1) * g.kernel_size();
  std::vector<float> columns(
      CheckedMul(static_cast<size_t>(CheckedMul64(x.dim(1), g.kernel_size())), kChunk));
  for (int64_t n = 0; n < x.dim(0); ++n) {
    const Deformation image{g,
                            x.dim(1),
                            offset_groups,
                            x.data<float>() + n * x.dim(1) * g.input_size(),
                            offset.data<float>() + n * offset.dim(1) * outputs,
                            mask ? mask + n * offset.dim(1) / 2 * outputs : nullptr};
    for (int64_t begin = 0; begin < outputs; begin += kChunk) {
      const int64_t count = std::min(kChunk, outputs - begin);
      // An image without pixels contributes nothing but zeros.
      if (g.input_size() > 0) image.Sampled(begin, count, columns.data());
      for (int64_t m = 0; m < channels_out; ++m) {
        float sums[kChunk];
        std::fill_n(sums, kChunk, bias ? bias[m] : 0.0F);
        float_loops::AddProducts(weight.data<float>() + m * depth,
                                 columns.data() + m / each * depth * kChunk, depth, sums);
        std::copy_n(sums, count, out.data<float>() + (n * channels_out + m) * outputs + begin);
      }
    }
  }
}

constexpr OpDef kRows[] = {
    {"DeformConv", "", 19, 3, 5, 1, InferDeformConv, EvaluateDeformConv, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> DeformConvOps() { return kRows; }

}  // namespace requant

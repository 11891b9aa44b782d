// NonMaxSuppression, RoiAlign, MaxUnpool (onnx docs/Operators.md). Where ONNX leaves something
// open, they follow ONNX Runtime.
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/infer_util.h"
#include "ops/table.h"

namespace requant {
namespace {

// --- NonMaxSuppression

void InferNonMaxSuppression(InferContext& context) {
  RequireDType(context, 0, {DType::kFloat32});
  RequireDType(context, 1, {DType::kFloat32});
  RequireRank(context, 0, 3);
  RequireRank(context, 1, 3);
  SetOutput(context, 0, DType::kInt64, SymbolicShape{Dim(), 3});
}

/// A box with ordered corners; its overlap with another is measured as intersection over union.
struct Box {
  float y0, x0, y1, x1;
  float Area() const { return (y1 - y0) * (x1 - x0); }
};

Box ReadBox(const float* from, bool center) {
  if (center) {
    const float half_w = from[2] / 2;
    const float half_h = from[3] / 2;
    return {from[1] - half_h, from[0] - half_w, from[1] + half_h, from[0] + half_w};
  }
  return {std::min(from[0], from[2]), std::min(from[1], from[3]), std::max(from[0], from[2]),
          std::max(from[1], from[3])};
}

bool Overlap(const Box& a, const Box& b, float threshold) {
  const float height = std::min(a.y1, b.y1) - std::max(a.y0, b.y0);
  const float width = std::min(a.x1, b.x1) - std::max(a.x0, b.x0);
  if (height <= 0 || width <= 0) return false;
  const float both = height * width;
  const float area_a = a.Area();
  const float area_b = b.Area();
  if (area_a <= 0 || area_b <= 0) return false;
  return both / (area_a + area_b - both) > threshold;
}

float ScalarOr(const EvalContext& context, size_t slot, float fallback) {
  if (!context.has(slot) || context.input(slot).count() == 0) return fallback;
  return static_cast<float>(context.input(slot).AsDouble(0));
}

void EvaluateNonMaxSuppression(EvalContext& context) {
  const Tensor& boxes = context.input(0);
  const Tensor& scores = context.input(1);
  if (boxes.rank() != 3 || scores.rank() != 3 || boxes.dim(2) != 4 ||
      boxes.dim(0) != scores.dim(0) || boxes.dim(1) != scores.dim(2)) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("NonMaxSuppression of boxes ", ShapeToString(boxes.shape()), " with scores ",
                ShapeToString(scores.shape())));
  }
  const int64_t most =
      context.has(2) && context.input(2).count() > 0 ? context.input(2).AsInt64(0) : 0;
  const float threshold = ScalarOr(context, 3, 0);
  const bool by_score = context.has(4) && context.input(4).count() > 0;
  const float least = ScalarOr(context, 4, 0);
  const bool center = context.attributes().Int("center_point_box", 0) != 0;
  const int64_t count = boxes.dim(1);
  std::vector<int64_t> out;
  std::vector<int64_t> order;
  std::vector<Box> kept;
  for (int64_t batch = 0; batch < scores.dim(0); ++batch) {
    for (int64_t category = 0; category < scores.dim(1); ++category) {
      const float* score = scores.data<float>() + (batch * scores.dim(1) + category) * count;
      order.clear();
      for (int64_t i = 0; i < count; ++i) {
        if (!by_score || score[i] > least) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(),
                       [score](int64_t a, int64_t b) { return score[a] > score[b]; });
      kept.clear();
      for (const int64_t i : order) {
        if (static_cast<int64_t>(kept.size()) >= most) break;
        const Box box = ReadBox(boxes.data<float>() + (batch * count + i) * 4, center);
        const bool hidden = std::any_of(kept.begin(), kept.end(), [&](const Box& other) {
          return Overlap(box, other, threshold);
        });
        if (hidden) continue;
        kept.push_back(box);
        out.insert(out.end(), {batch, category, i});
      }
    }
  }
  context.outputs[0] = Tensor::FromVector<int64_t>(out, {static_cast<int64_t>(out.size() / 3), 3});
}

// --- RoiAlign

void InferRoiAlign(InferContext& context) {
  RequireFloat(context, 0);
  RequireSameDType(context, 0, 1);
  RequireRank(context, 0, 4);
  RequireRank(context, 1, 2);
  RequireRank(context, 2, 1);
  SymbolicShape shape = {Dim(), Dim(), context.attributes().Int("output_height", 1),
                         context.attributes().Int("output_width", 1)};
  if (context.shape(1)) shape[0] = (*context.shape(1))[0];
  if (context.shape(0)) shape[1] = (*context.shape(0))[1];
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

/// Four neighbors and their weights, as in the original code of Mask R-CNN.
struct Bilinear {
  int64_t at[4];
  double weight[4];
};

Bilinear Neighbours(double y, double x, int64_t height, int64_t width) {
  const bool inside =
      y >= -1 && y <= static_cast<double>(height) && x >= -1 && x <= static_cast<double>(width);
  if (!inside) return {};  // also for NaN
  y = std::max(y, 0.0);
  x = std::max(x, 0.0);
  auto y0 = static_cast<int64_t>(y);
  auto x0 = static_cast<int64_t>(x);
  int64_t y1 = y0 + 1;
  int64_t x1 = x0 + 1;
  if (y0 >= height - 1) {
    y0 = y1 = height - 1;
    y = static_cast<double>(y0);
  }
  if (x0 >= width - 1) {
    x0 = x1 = width - 1;
    x = static_cast<double>(x0);
  }
  const double ly = y - static_cast<double>(y0);
  const double lx = x - static_cast<double>(x0);
  return {{y0 * width + x0, y0 * width + x1, y1 * width + x0, y1 * width + x1},
          {(1 - ly) * (1 - lx), (1 - ly) * lx, ly * (1 - lx), ly * lx}};
}

/// The sum of the weighted neighbors of all samples, or the largest one; 0 without samples.
template <typename T>
double SumOfSamples(const T* plane, const std::vector<Bilinear>& samples, bool largest) {
  const Bilinear* sample = samples.data();
  const Bilinear* const end = sample + samples.size();
  double sum = 0;
  if (largest && sample != end) sum = sample->weight[0] * static_cast<double>(plane[sample->at[0]]);
  for (; sample != end; ++sample) {
    const int64_t* at = sample->at;
    const double* weight = sample->weight;
    const double terms[4] = {weight[0] * static_cast<double>(plane[at[0]]),
                             weight[1] * static_cast<double>(plane[at[1]]),
                             weight[2] * static_cast<double>(plane[at[2]]),
                             weight[3] * static_cast<double>(plane[at[3]])};
    if (!largest) {
      sum = (((sum + terms[0]) + terms[1]) + terms[2]) + terms[3];
      continue;
    }
    for (const double term : terms) sum = term > sum ? term : sum;
  }
  return sum;
}

void EvaluateRoiAlign(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& rois = context.input(1);
  const AttributeMap& attributes = context.attributes();
  const int64_t out_h = attributes.Int("output_height", 1);
  const int64_t out_w = attributes.Int("output_width", 1);
  const int64_t ratio = attributes.Int("sampling_ratio", 0);
  const double scale = attributes.Float("spatial_scale", 1);
  const bool largest = attributes.String("mode", "avg") == "max";
  const bool half = context.opset >= 16 && attributes.String("coordinate_transformation_mode",
                                                             "half_pixel") == "half_pixel";
  if (x.rank() != 4 || rois.rank() != 2 || rois.dim(1) != 4 ||
      context.input(2).count() != rois.dim(0) || out_h < 1 || out_w < 1 || ratio < 0) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("RoiAlign of ", ShapeToString(x.shape()), " with ", ShapeToString(rois.shape())));
  }
  const int64_t channels = x.dim(1), height = x.dim(2), width = x.dim(3);
  Tensor out(x.dtype(), {rois.dim(0), channels, out_h, out_w});
  std::vector<Bilinear> samples;
  for (int64_t r = 0; r < rois.dim(0); ++r) {
    const int64_t batch = context.input(2).AsInt64(r);
    if (batch < 0 || batch >= x.dim(0)) {
      Fail(ErrorCode::kInvalidArgument, StrCat("RoiAlign in image ", batch));
    }
    const double offset = half ? 0.5 : 0;
    const double x0 = rois.AsDouble(r * 4) * scale - offset;
    const double y0 = rois.AsDouble(r * 4 + 1) * scale - offset;
    double roi_w = rois.AsDouble(r * 4 + 2) * scale - offset - x0;
    double roi_h = rois.AsDouble(r * 4 + 3) * scale - offset - y0;
    if (!half) {
      roi_w = std::max(roi_w, 1.0);
      roi_h = std::max(roi_h, 1.0);
    }
    const double bin_h = roi_h / static_cast<double>(out_h);
    const double bin_w = roi_w / static_cast<double>(out_w);
    constexpr double kMost = 1 << 16;
    const auto grid = [&](double bin) {
      if (ratio > 0) return ratio;
      return bin > 0 ? static_cast<int64_t>(std::min(std::ceil(bin), kMost)) : 0;  // NaN gives 0
    };
    const int64_t grid_h = grid(bin_h), grid_w = grid(bin_w);
    const int64_t area = std::max<int64_t>(grid_h * grid_w, 1);
    for (int64_t ph = 0; ph < out_h; ++ph) {
      for (int64_t pw = 0; pw < out_w; ++pw) {
        samples.clear();
        for (int64_t iy = 0; iy < grid_h; ++iy) {
          const double y = y0 + static_cast<double>(ph) * bin_h +
                           (static_cast<double>(iy) + 0.5) * bin_h / static_cast<double>(grid_h);
          for (int64_t ix = 0; ix < grid_w; ++ix) {
            samples.push_back(Neighbours(
                y,
                x0 + static_cast<double>(pw) * bin_w +
                    (static_cast<double>(ix) + 0.5) * bin_w / static_cast<double>(grid_w),
                height, width));
          }
        }
        for (int64_t c = 0; c < channels; ++c) {
          const int64_t plane = (batch * channels + c) * height * width;
          const double sum = x.dtype() == DType::kFloat64
                                 ? SumOfSamples(x.data<double>() + plane, samples, largest)
                                 : SumOfSamples(x.data<float>() + plane, samples, largest);
          const double result = largest ? sum : sum / static_cast<double>(area);
          const int64_t at = ((r * channels + c) * out_h + ph) * out_w + pw;
          if (x.dtype() == DType::kFloat64) {
            out.data<double>()[at] = result;
          } else {
            out.data<float>()[at] = static_cast<float>(result);
          }
        }
      }
    }
  }
  context.outputs[0] = std::move(out);
}

// --- MaxUnpool

/// The size of the input from which a MaxPool with this window would have made `x`.
Shape UnpooledShape(const AttributeMap& attributes, const Shape& x) {
  const std::vector<int64_t> kernel = attributes.Ints("kernel_shape");
  if (kernel.empty() || kernel.size() + 2 != x.size()) {
    Fail(ErrorCode::kInvalidModel, "MaxUnpool needs a kernel_shape of its input's rank");
  }
  const Window window = ReadWindow(attributes, kernel);
  Shape out = {x[0], x[1]};
  for (size_t i = 0; i < kernel.size(); ++i) {
    const int64_t steps = CheckedMul64(x[2 + i] - 1, window.strides[i]);
    out.push_back(CheckedAdd64(steps, kernel[i]) - window.pad_begin[i] - window.pad_end[i]);
  }
  return out;
}

void InferMaxUnpool(InferContext& context) {
  RequireFloat(context, 0);
  RequireDType(context, 1, {DType::kInt64});
  std::optional<SymbolicShape> shape;
  if (context.has(2)) {
    if (const Tensor* given = context.constant(2)) shape = ToSymbolic(given->ToInts());
  } else if (context.inputs[0].IsStatic()) {
    shape = ToSymbolic(UnpooledShape(context.attributes(), context.inputs[0].StaticShape()));
  }
  SetOutput(context, 0, context.inputs[0].dtype, shape);
}

void EvaluateMaxUnpool(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& indices = context.input(1);
  const Shape pooled = UnpooledShape(context.attributes(), x.shape());
  Tensor out(x.dtype(), context.has(2) ? context.input(2).ToInts() : pooled);
  const bool empty = std::any_of(pooled.begin(), pooled.end(), [](int64_t d) { return d < 1; });
  if (indices.count() != x.count() || out.rank() != x.rank() || (empty && x.count() > 0)) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat("MaxUnpool of ", ShapeToString(x.shape()), " with ", ShapeToString(indices.shape()),
                " to ", ShapeToString(out.shape())));
  }
  const auto element = static_cast<size_t>(DTypeBits(x.dtype()) / 8);
  for (int64_t i = 0; i < x.count(); ++i) {
    // Indices count in the tensor that was pooled; in a larger output the elements keep their
    // coordinates.
    int64_t rest = indices.AsInt64(i);
    int64_t to = 0;
    int64_t stride = 1;
    bool inside = rest >= 0;
    for (size_t d = pooled.size(); d-- > 0;) {
      const int64_t at = rest % pooled[d];
      rest /= pooled[d];
      inside = inside && at < out.shape()[d];
      to += at * stride;
      stride *= out.shape()[d];
    }
    if (!inside || rest != 0 || to >= out.count()) {
      Fail(ErrorCode::kInvalidArgument, StrCat("MaxUnpool to element ", indices.AsInt64(i)));
    }
    std::copy_n(static_cast<const uint8_t*>(x.raw()) + static_cast<size_t>(i) * element, element,
                static_cast<uint8_t*>(out.raw()) + static_cast<size_t>(to) * element);
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kRows[] = {
    {"MaxUnpool", "", 9, 2, 3, 1, InferMaxUnpool, EvaluateMaxUnpool, QuantRule::kFloat},
    {"NonMaxSuppression", "", 10, 2, 5, 1, InferNonMaxSuppression, EvaluateNonMaxSuppression,
     QuantRule::kFloat},
    {"RoiAlign", "", 10, 3, 3, 1, InferRoiAlign, EvaluateRoiAlign, QuantRule::kFloat},
};

}  // namespace

std::span<const OpDef> DetectionOps() { return kRows; }

}  // namespace requant

// ConvTranspose, whose reference works as that of conv.cpp.
#include <algorithm>
#include <vector>

#include "base/checked_math.h"
#include "base/error.h"
#include "base/str_cat.h"
#include "ops/convolution/convolve.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

namespace requant {
namespace {

/// One spatial dimension: input i and tap k meet output i * stride + k * dilation - pad_begin.
struct TransposeAxis {
  int64_t output, pad_begin;
};

/// Follows the formulas of ONNX's ConvTranspose for pads, output_padding and output_shape.
TransposeAxis PlaceTransposed(const Window& window, size_t axis, int64_t input,
                              int64_t output_padding, const int64_t* output_shape) {
  const int64_t steps = CheckedMul64(std::max<int64_t>(input - 1, 0), window.strides[axis]);
  const int64_t full = CheckedAdd64(CheckedAdd64(steps, output_padding), window.Extent(axis));
  const bool same =
      window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
  if (output_shape == nullptr && !same) {
    const int64_t pads = CheckedAdd64(window.pad_begin[axis], window.pad_end[axis]);
    if (pads > full) {
      Fail(ErrorCode::kShapeMismatch, StrCat("pads of ", pads, " leave nothing of the ", full,
                                             " elements of spatial dimension ", axis));
    }
    return {full - pads, window.pad_begin[axis]};
  }
  const int64_t output = output_shape ? *output_shape : CheckedMul64(input, window.strides[axis]);
  if (output < 0) Fail(ErrorCode::kInvalidModel, StrCat("output_shape has the entry ", output));
  const int64_t total = std::max<int64_t>(0, full - output);
  const int64_t small = total / 2;
  return {output, window.auto_pad == AutoPad::kSameUpper ? small : total - small};
}

struct TransposeAttributes {
  Window window;
  std::vector<int64_t> output_padding;
  std::vector<int64_t> output_shape;  // empty when absent
};

TransposeAttributes ReadTranspose(const AttributeMap& attributes, std::vector<int64_t> kernel) {
  const size_t rank = kernel.size();
  TransposeAttributes out;
  out.window = ReadWindow(attributes, std::move(kernel));
  out.output_padding = attributes.Ints("output_padding", std::vector<int64_t>(rank, 0));
  out.output_shape = attributes.Ints("output_shape");
  // Some exporters list batch and channels too.
  if (out.output_shape.size() == rank + 2) {
    out.output_shape.erase(out.output_shape.begin(), out.output_shape.begin() + 2);
  }
  if (out.output_padding.size() != rank ||
      (!out.output_shape.empty() && out.output_shape.size() != rank)) {
    Fail(ErrorCode::kInvalidModel,
         StrCat("output_padding or output_shape does not have ", rank, " entries"));
  }
  for (const int64_t entry : out.output_padding) {
    if (entry < 0) Fail(ErrorCode::kInvalidModel, "output_padding is negative");
  }
  return out;
}

void InferConvTranspose(InferContext& context) {
  RequireFloat(context, 0);
  RequireSameDType(context, 0, 1);
  RequireSameDType(context, 0, 2);
  std::optional<SymbolicShape> shape;
  if (context.shape(0) && context.shape(1)) {
    shape = TransposeOutputShape(context.attributes(), *context.shape(0), *context.shape(1),
                                 context.shape(2));
  }
  SetOutput(context, 0, context.inputs[0].dtype, std::move(shape));
}

void ConvolveTransposed(const Geometry& g, int64_t group, const Tensor& x, const Tensor& weight,
                        const Tensor* bias, Tensor& out) {
  const int64_t channels_in = weight.dim(0);
  const int64_t width = weight.dim(1);  // output channels of a group
  const int64_t depth = channels_in / group;
  const std::vector<double> data = x.ToDoubles();
  const std::vector<double> kernels = weight.ToDoubles();
  std::vector<double> sums(static_cast<size_t>(g.output_size()));
  int64_t index = 0;
  for (int64_t n = 0; n < x.dim(0); ++n) {
    for (int64_t m = 0; m < width * group; ++m) {
      std::fill(sums.begin(), sums.end(), bias ? bias->AsDouble(m) : 0.0);
      const int64_t first = m / width * depth;
      for (int64_t c = first; c < first + depth; ++c) {
        AddTransposed(g, data.data() + (n * channels_in + c) * g.input_size(),
                      kernels.data() + (c * width + m % width) * g.kernel_size(), sums.data());
      }
      for (const double sum : sums) StoreSum(out, index++, sum);
    }
  }
}

void EvaluateConvTranspose(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& weight = context.input(1);
  const Tensor* bias = context.has(2) ? &context.input(2) : nullptr;
  const SymbolicShape bias_shape = bias ? ToSymbolic(bias->shape()) : SymbolicShape{};
  const ValueType type{
      x.dtype(), TransposeOutputShape(context.attributes(), ToSymbolic(x.shape()),
                                      ToSymbolic(weight.shape()), bias ? &bias_shape : nullptr)};
  Tensor out(x.dtype(), type.StaticShape());
  if (out.count() > 0) {
    const Geometry g = TransposedGeometry(context.attributes(), x.shape(), weight.shape());
    const int64_t group = context.attributes().Int("group", 1);
    ConvolveTransposed(g, group, x, weight, bias, out);
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kOps[] = {
    {"ConvTranspose", "", 1, 2, 3, 1, InferConvTranspose, EvaluateConvTranspose, QuantRule::kConv,
     FusionRule::kOutFusable},
};

}  // namespace

void AddTransposed(const Geometry& g, const double* plane, const double* kernel, double* sums) {
  // InsideOutputs is called with input and output exchanged.
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
    const int64_t offset_d = kd * g.dilation[0] - g.pad_begin[0];
    const Range rd = InsideOutputs(g.output[0], g.input[0], g.stride[0], offset_d);
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
      const int64_t offset_h = kh * g.dilation[1] - g.pad_begin[1];
      const Range rh = InsideOutputs(g.output[1], g.input[1], g.stride[1], offset_h);
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
        const double weight = *kernel++;
        const int64_t offset_w = kw * g.dilation[2] - g.pad_begin[2];
        const Range rw = InsideOutputs(g.output[2], g.input[2], g.stride[2], offset_w);
        for (int64_t d = rd.first; d < rd.last; ++d) {
          for (int64_t h = rh.first; h < rh.last; ++h) {
            const double* from = plane + (d * g.input[1] + h) * g.input[2];
            const int64_t line =
                (d * g.stride[0] + offset_d) * g.output[1] + h * g.stride[1] + offset_h;
            double* to = sums + line * g.output[2] + offset_w;
            for (int64_t w = rw.first; w < rw.last; ++w) to[w * g.stride[2]] += weight * from[w];
          }
        }
      }
    }
  }
}

SymbolicShape TransposeOutputShape(const AttributeMap& attributes, const SymbolicShape& x,
                                   const SymbolicShape& weight, const SymbolicShape* bias) {
  if (x.size() < 3 || x.size() > 5 || weight.size() != x.size()) {
    Fail(x.size() > 5 ? ErrorCode::kUnsupported : ErrorCode::kShapeMismatch,
         StrCat("ConvTranspose of an input with ", x.size(), " and weights with ", weight.size(),
                " dimensions"));
  }
  const int64_t group = attributes.Int("group", 1);
  if (group < 1) Fail(ErrorCode::kInvalidModel, StrCat("group is ", group));
  const Dim channels_in = MergeDims(x[1], weight[0], "input channels and weights");
  if (channels_in.known() && channels_in.value % group != 0) {
    Fail(ErrorCode::kShapeMismatch,
         StrCat(channels_in.value, " channels cannot be divided into ", group, " groups"));
  }
  SymbolicShape out(x.size());
  out[0] = x[0];
  out[1] = MultiplyDims(weight[1], group);
  if (bias != nullptr) {
    if (bias->size() != 1) {
      Fail(ErrorCode::kShapeMismatch, StrCat("the bias has ", bias->size(), " dimensions, not 1"));
    }
    out[1] = MergeDims(out[1], (*bias)[0], "output channels and bias");
  }
  std::vector<int64_t> kernel = attributes.Ints("kernel_shape");
  const bool declared = !kernel.empty();
  if (declared && kernel.size() != x.size() - 2) {
    Fail(ErrorCode::kInvalidModel, "kernel_shape does not fit the input's dimensions");
  }
  kernel.resize(x.size() - 2);
  for (size_t i = 0; i < kernel.size(); ++i) {
    const Dim size =
        MergeDims(declared ? Dim(kernel[i]) : Dim(), weight[2 + i], "kernel_shape and weights");
    if (!size.known()) return out;
    kernel[i] = size.value;
  }
  const TransposeAttributes t = ReadTranspose(attributes, std::move(kernel));
  for (size_t i = 0; i < t.window.rank(); ++i) {
    const int64_t* wanted = t.output_shape.empty() ? nullptr : &t.output_shape[i];
    if (x[2 + i].known()) {
      out[2 + i] = PlaceTransposed(t.window, i, x[2 + i].value, t.output_padding[i], wanted).output;
    } else if (wanted != nullptr) {
      out[2 + i] = *wanted;
    }
  }
  return out;
}

Geometry TransposedGeometry(const AttributeMap& attributes, const Shape& input,
                            const Shape& weights) {
  const TransposeAttributes t =
      ReadTranspose(attributes, std::vector<int64_t>(weights.begin() + 2, weights.end()));
  Geometry g;
  g.input = g.output = g.kernel = g.stride = g.dilation = {1, 1, 1};
  g.pad_begin = g.pad_end = {0, 0, 0};
  for (size_t i = 0; i < t.window.rank(); ++i) {
    const size_t axis = 3 - t.window.rank() + i;
    const TransposeAxis place =
        PlaceTransposed(t.window, i, input[2 + i], t.output_padding[i],
                        t.output_shape.empty() ? nullptr : &t.output_shape[i]);
    g.input[axis] = input[2 + i];
    g.output[axis] = place.output;
    g.kernel[axis] = t.window.kernel[i];
    g.stride[axis] = t.window.strides[i];
    g.dilation[axis] = t.window.dilations[i];
    g.pad_begin[axis] = place.pad_begin;
  }
  return g;
}

std::span<const OpDef> ConvTransposeOps() { return kOps; }

}  // namespace requant

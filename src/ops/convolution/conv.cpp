// Conv. The reference keeps one channel's sums in double and walks along rows, so that the
// innermost loop is one multiplication and addition on neighboring elements.
#include <algorithm>
#include <vector>

#include "ops/convolution/convolve.h"
#include "ops/shape_rules.h"
#include "ops/table.h"

namespace requant {
namespace {

void InferConv(InferContext& context) {
  RequireFloat(context, 0);
  RequireSameDType(context, 0, 1);
  RequireSameDType(context, 0, 2);
  const SymbolicShape* x = context.shape(0);
  if (x == nullptr) return SetOutput(context, 0, context.inputs[0].dtype, std::nullopt);
  SetOutput(context, 0, context.inputs[0].dtype,
            ConvOutputShape(context.attributes(), *x, context.shape(1), context.shape(2)));
}

void Convolve(const Geometry& g, int64_t group, const Tensor& x, const Tensor& weight,
              const Tensor* bias, Tensor& out) {
  const int64_t channels_out = weight.dim(0);
  const int64_t depth = weight.dim(1);
  const std::vector<double> data = x.ToDoubles();
  const std::vector<double> kernels = weight.ToDoubles();
  std::vector<double> sums(static_cast<size_t>(g.output_size()));
  int64_t index = 0;
  for (int64_t n = 0; n < x.dim(0); ++n) {
    for (int64_t m = 0; m < channels_out; ++m) {
      std::fill(sums.begin(), sums.end(), bias ? bias->AsDouble(m) : 0.0);
      const int64_t first = m / (channels_out / group) * depth;
      for (int64_t c = 0; c < depth; ++c) {
        AddConvolved(g, data.data() + (n * x.dim(1) + first + c) * g.input_size(),
                     kernels.data() + (m * depth + c) * g.kernel_size(), sums.data());
      }
      for (const double sum : sums) StoreSum(out, index++, sum);
    }
  }
}

void EvaluateConv(EvalContext& context) {
  const Tensor& x = context.input(0);
  const Tensor& weight = context.input(1);
  const Tensor* bias = context.has(2) ? &context.input(2) : nullptr;
  const SymbolicShape weight_shape = ToSymbolic(weight.shape());
  const SymbolicShape bias_shape = bias ? ToSymbolic(bias->shape()) : SymbolicShape{};
  const ValueType type{x.dtype(), ConvOutputShape(context.attributes(), ToSymbolic(x.shape()),
                                                  &weight_shape, bias ? &bias_shape : nullptr)};
  Tensor out(x.dtype(), type.StaticShape());
  if (out.count() > 0) {
    const Geometry g = PlaceGeometry(ConvWindow(context.attributes(), weight.shape()), x.shape());
    const int64_t group = context.attributes().Int("group", 1);
    Convolve(g, group, x, weight, bias, out);
  }
  context.outputs[0] = std::move(out);
}

constexpr OpDef kOps[] = {
    {"Conv", "", 1, 2, 3, 1, InferConv, EvaluateConv, QuantRule::kConv, FusionRule::kOutFusable},
};

}  // namespace

void StoreSum(Tensor& out, int64_t index, double sum) {
  if (out.dtype() == DType::kFloat64) {
    out.data<double>()[index] = sum;
  } else {
    out.data<float>()[index] = static_cast<float>(sum);
  }
}

void AddConvolved(const Geometry& g, const double* plane, const double* kernel, double* sums) {
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
    const int64_t offset_d = kd * g.dilation[0] - g.pad_begin[0];
    const Range rd = InsideOutputs(g.input[0], g.output[0], g.stride[0], offset_d);
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
      const int64_t offset_h = kh * g.dilation[1] - g.pad_begin[1];
      const Range rh = InsideOutputs(g.input[1], g.output[1], g.stride[1], offset_h);
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
        const double weight = *kernel++;
        const int64_t offset_w = kw * g.dilation[2] - g.pad_begin[2];
        const Range rw = InsideOutputs(g.input[2], g.output[2], g.stride[2], offset_w);
        const int64_t stride = g.stride[2];
        for (int64_t d = rd.first; d < rd.last; ++d) {
          for (int64_t h = rh.first; h < rh.last; ++h) {
            const int64_t line =
                (d * g.stride[0] + offset_d) * g.input[1] + h * g.stride[1] + offset_h;
            const double* from = plane + line * g.input[2] + offset_w;
            double* to = sums + (d * g.output[1] + h) * g.output[2];
            if (stride == 1) {
              for (int64_t w = rw.first; w < rw.last; ++w) to[w] += weight * from[w];
            } else {
              for (int64_t w = rw.first; w < rw.last; ++w) to[w] += weight * from[w * stride];
            }
          }
        }
      }
    }
  }
}

std::span<const OpDef> ConvOps() { return kOps; }

}  // namespace requant

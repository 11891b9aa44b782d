#include "quant/sim/fast_ops.h"

#include <algorithm>
#include <limits>

#include "ops/shape_rules.h"

namespace requant {
namespace {

bool AreFloats(const std::vector<const Tensor*>& inputs, size_t count) {
  return inputs.size() == count &&
         std::all_of(inputs.begin(), inputs.end(), [](const Tensor* input) {
           return input && input->dtype() == DType::kFloat32;
         });
}

Tensor Clip(const Tensor& x, float low, float high) {
  Tensor out(DType::kFloat32, x.shape());
  const float* from = x.data<float>();
  auto* to = out.data<float>();
  for (int64_t i = 0; i < x.count(); ++i) to[i] = std::min(std::max(from[i], low), high);
  return out;
}

Tensor Relu(const Tensor& x) {
  Tensor out(DType::kFloat32, x.shape());
  const float* from = x.data<float>();
  auto* to = out.data<float>();
  for (int64_t i = 0; i < x.count(); ++i) to[i] = std::max(from[i], 0.0f);
  return out;
}

Tensor Add(const Tensor& x, const Tensor& y) {
  Tensor out(DType::kFloat32, x.shape());
  const float* a = x.data<float>();
  const float* b = y.data<float>();
  auto* to = out.data<float>();
  for (int64_t i = 0; i < x.count(); ++i) to[i] = a[i] + b[i];
  return out;
}

/// The outputs along one dimension for which a tap of a window lies inside of the input, and the
/// positions that it reads.
struct TapLine {
  Range outputs;
  int64_t offset;  // output o reads position o * stride + offset
};

TapLine TapAt(const Geometry& g, size_t axis, int64_t tap) {
  const int64_t offset = tap * g.dilation[axis] - g.pad_begin[axis];
  return {InsideOutputs(g.input[axis], g.output[axis], g.stride[axis], offset), offset};
}

/// Replaces each output by the larger of itself and the element that a tap reads; NaN wins.
void TakeLarger(const float* from, int64_t stride, float* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const float value = from[i * stride];
    to[i] = value <= to[i] || to[i] != to[i] ? to[i] : value;
  }
}

/// Computes a MaxPool tap by tap, for a line of outputs each.
void MaxPoolPlane(const Geometry& g, const float* x, float* y) {
  std::fill(y, y + g.output_size(), std::numeric_limits<float>::lowest());
  for (int64_t kd = 0; kd < g.kernel[0]; ++kd) {
    const TapLine plane = TapAt(g, 0, kd);
    for (int64_t kh = 0; kh < g.kernel[1]; ++kh) {
      const TapLine line = TapAt(g, 1, kh);
      for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
        const TapLine column = TapAt(g, 2, kw);
        const auto [first, last] = column.outputs;
        for (int64_t d = plane.outputs.first; d < plane.outputs.last; ++d) {
          for (int64_t h = line.outputs.first; h < line.outputs.last; ++h) {
            const int64_t from =
                ((d * g.stride[0] + plane.offset) * g.input[1] + h * g.stride[1] + line.offset) *
                    g.input[2] +
                first * g.stride[2] + column.offset;
            const int64_t to = (d * g.output[1] + h) * g.output[2] + first;
            TakeLarger(x + from, g.stride[2], y + to, last - first);
          }
        }
      }
    }
  }
}

Tensor MaxPool(const Node& node, const Tensor& x) {
  const ValueType type{x.dtype(), PoolOutputShape(node.attributes, ToSymbolic(x.shape()))};
  Tensor out(x.dtype(), type.StaticShape());
  if (out.count() == 0) return out;
  const Geometry g = PlaceGeometry(PoolWindow(node.attributes), x.shape());
  for (int64_t plane = 0; plane < x.dim(0) * x.dim(1); ++plane) {
    MaxPoolPlane(g, x.data<float>() + plane * g.input_size(),
                 out.data<float>() + plane * g.output_size());
  }
  return out;
}

}  // namespace

std::optional<Tensor> EvaluateFast(const Node& node, const std::vector<const Tensor*>& inputs) {
  if (node.Is(Op::kClip) && AreFloats(inputs, 3)) {
    return Clip(*inputs[0], inputs[1]->data<float>()[0], inputs[2]->data<float>()[0]);
  }
  if (node.Is(Op::kRelu) && AreFloats(inputs, 1)) return Relu(*inputs[0]);
  if (node.Is(Op::kAdd) && AreFloats(inputs, 2) && inputs[0]->shape() == inputs[1]->shape()) {
    return Add(*inputs[0], *inputs[1]);
  }
  if (node.Is(Op::kMaxPool) && AreFloats(inputs, 1) && node.outputs.size() == 1) {
    return MaxPool(node, *inputs[0]);
  }
  return std::nullopt;
}

}  // namespace requant

// QLinearConvTranspose
// Before: QLinearConvTranspose(x, w, bias)
// After:  the form of QLinearConv (conv.cpp) of an image with the zero point between its pixels:
//           codes = Pad(Reshape(Pad(Reshape(x, [N, C, H, 1, W, 1])), [N, C, H s, W s]))
//           ConvInteger(codes, w with channels exchanged and taps in reverse order)
// Conditions: the parameters, the weights, the bias and the sizes of the image are constant.
// Formula, along one dimension, with stride s, dilation d and pad p: output o is the sum over taps
// k of
//   w[k] x[(o + p - k d) / s] where that is whole, so with u[i s] = x[i], else the zero point,
//   y[o] = sum over k of w'[k] u[o - ((K - 1) d - p) + k d],  w'[k] = w[K - 1 - k]
//   The pads of u may be negative, which cuts pixels off.
#include <algorithm>
#include <cstring>
#include <utility>

#include "ops/convolution/convolve.h"
#include "ops/shape_rules.h"
#include "passes/integers/layer.h"
#include "passes/rewrite.h"

namespace requant::integers {
namespace {

/// Weights [M, C / groups, ...] of the convolution.
Tensor Exchanged(const Tensor& w, int64_t groups) {
  const int64_t inner = w.dim(0) / groups;
  const int64_t width = w.dim(1);
  Shape shape = w.shape();
  shape[0] = groups * width;
  shape[1] = inner;
  Tensor out(w.dtype(), shape);
  const int64_t taps = w.count() / (w.dim(0) * width);
  const auto* from = static_cast<const uint8_t*>(w.raw());
  auto* to = static_cast<uint8_t*>(out.raw());
  for (int64_t group = 0; group < groups; ++group) {
    for (int64_t o = 0; o < width; ++o) {
      for (int64_t c = group * inner; c < (group + 1) * inner; ++c, to += taps) {
        std::reverse_copy(from + (c * width + o) * taps, from + (c * width + o + 1) * taps, to);
      }
    }
  }
  return out;
}

/// The weights' parameters for each output channel, which groups may share.
std::optional<Operand> WeightOperand(const Node& node, int64_t groups, int64_t width) {
  std::optional<Operand> own = ConstantOperand(node, 4, 5, groups * width);
  if (own || groups == 1) return own;
  own = ConstantOperand(node, 4, 5, width);
  if (!own) return own;
  const auto repeat = [&](auto& list) {
    const auto once = list;
    if (once.size() == 1) return;
    for (int64_t group = 1; group < groups; ++group) {
      list.insert(list.end(), once.begin(), once.end());
    }
  };
  repeat(own->scales);
  repeat(own->zeros);
  return own;
}

Value* Reshaped(Writer& writer, Value* x, const std::vector<int64_t>& shape, const char* name,
                const char* part) {
  return writer.Add("Reshape", {x, writer.Constant(name, Tensor::Vector(shape))}, part,
                    x->type.dtype);
}

Value* Padded(Writer& writer, Value* x, const std::vector<int64_t>& pads, int32_t zero,
              const char* name, const char* part) {
  if (std::all_of(pads.begin(), pads.end(), [](int64_t pad) { return pad == 0; })) return x;
  const DType dtype = x->type.dtype;
  return writer.Add(
      "Pad",
      {x, writer.Constant(name, Tensor::Vector(pads)), writer.ZeroPoint("pad_code", {zero}, dtype)},
      part, dtype);
}

/// The image with the zero point between its pixels, cut or padded as the formula says.
Value* Spread(Writer& writer, const Geometry& g, size_t spatial, int64_t channels, int32_t zero) {
  Value* x = writer.node().inputs[0];
  std::vector<int64_t> apart = {0, channels}, together = {0, channels};
  std::vector<int64_t> between(2 * (2 + 2 * spatial), 0), pads(2 * (2 + spatial), 0);
  bool spreads = false;
  for (size_t i = 0; i < spatial; ++i) {
    const size_t axis = 3 - spatial + i;
    const int64_t size = g.input[axis];
    const int64_t stride = g.stride[axis];
    const int64_t reach = (g.kernel[axis] - 1) * g.dilation[axis];
    apart.push_back(size);
    apart.push_back(1);
    together.push_back(size * stride);
    between[2 + 2 * spatial + 2 + 2 * i + 1] = stride - 1;
    spreads = spreads || stride != 1;
    pads[2 + i] = reach - g.pad_begin[axis];
    pads[2 + spatial + 2 + i] = g.output[axis] + reach - size * stride - pads[2 + i];
  }
  if (spreads) {
    x = Reshaped(writer, x, apart, "apart_shape", "apart");
    x = Padded(writer, x, between, zero, "between", "spread_apart");
    x = Reshaped(writer, x, together, "spread_shape", "spread");
  }
  return Padded(writer, x, pads, zero, "pads", "padded");
}

}  // namespace

Reason LegalizeConvTranspose(Writer& writer) {
  const Node& node = writer.node();
  const Tensor* w = node.constant(3);
  if (w == nullptr) return "its weights are not constant";
  if (node.input(8) != nullptr && node.constant(8) == nullptr) return "its bias is not constant";
  if (w->rank() < 3 || w->rank() > 5 || w->count() == 0) return "its weights are empty";
  const int64_t groups = node.attributes.Int("group", 1);
  const int64_t channels = groups * w->dim(1);
  const std::optional<Operand> qx = ConstantOperand(node, 1, 2);
  const std::optional<Operand> qw = WeightOperand(node, groups, w->dim(1));
  const std::optional<Output> to = ConstantOutput(node, 6, 7);
  if (!qx || !qw || !to) return kParametersNotConstant;
  if (RankOf(node.inputs[0]) != w->rank()) return "the rank of its input is not known";
  Shape sizes = {1, w->dim(0)};
  for (size_t i = 2; i < static_cast<size_t>(w->rank()); ++i) {
    const Dim& size = (*node.inputs[0]->type.shape)[i];
    if (!size.known()) return "the sizes of its input are open";
    if (size.value == 0) return "its input is empty";
    sizes.push_back(size.value);
  }
  const Geometry g = TransposedGeometry(node.attributes, sizes, w->shape());
  const auto spatial = static_cast<size_t>(w->rank()) - 2;
  Shape shape(static_cast<size_t>(w->rank()) - 1, 1);
  shape[0] = channels;
  AttributeMap attributes;
  attributes.Set("group", groups);
  std::vector<int64_t> dilations;
  for (size_t i = 0; i < spatial; ++i) dilations.push_back(g.dilation[3 - spatial + i]);
  attributes.Set("dilations", std::move(dilations));
  const Layer layer{Spread(writer, g, spatial, w->dim(0), qx->zeros[0]),
                    writer.Constant("weights", Exchanged(*w, groups)),
                    *qx,
                    *qw,
                    channels,
                    w->count() / w->dim(1) / groups,
                    shape,
                    std::move(attributes)};
  FinishLayer(writer, layer, std::vector<int64_t>(2 * spatial, 0), node.constant(8), *to);
  return {};
}

}  // namespace requant::integers

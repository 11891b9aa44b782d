// QLinearConv
// Before: QLinearConv(x, w, bias)
// After:  FixedPointMultiply(ConvInteger(x, w) + bias), clamped
// Conditions: the parameters, the weights and the bias are constant.
// Formula, for output channel m with K taps of which sums go over the whole window:
//   sum((qx - zx) * (qw - zw[m])) + b[m]                                          (subtract first)
//   sum(qx * qw) - zw[m] * sum(qx) + (b[m] - zx * sum(qw) + K * zx * zw[m])       (four terms)
//   The taps of the second form include padding, whose code is zx; so a Pad with the value zx goes
//   before it. Both are equal modulo 2^32, as the accumulators are.
//   (TVM src/relay/qnn/op/convolution.cc: Conv2DFirstTerm to Conv2DFourthTerm.)
#include <algorithm>
#include <utility>

#include "numeric/multiplier.h"
#include "ops/shape_rules.h"
#include "passes/integers/layer.h"
#include "passes/integers/writer.h"
#include "passes/rewrite.h"

namespace requant::integers {
namespace {

/// The pads of the window, begins before ends; nullopt if auto_pad needs sizes that are open.
std::optional<std::vector<int64_t>> PadsOf(const Window& window, const Value* x) {
  const size_t spatial = window.rank();
  std::vector<int64_t> pads(2 * spatial, 0);
  const bool same =
      window.auto_pad == AutoPad::kSameUpper || window.auto_pad == AutoPad::kSameLower;
  for (size_t i = 0; i < spatial; ++i) {
    int64_t begin = window.pad_begin[i], end = window.pad_end[i];
    if (same) {
      const Dim& size = (*x->type.shape)[i + 2];
      if (!size.known()) return {};
      const WindowAxis axis = PlaceWindow(window, i, size.value);
      begin = axis.pad_begin;
      end = axis.pad_end;
    }
    pads[i] = begin;
    pads[i + spatial] = end;
  }
  return pads;
}

AttributeMap WithoutPads(const AttributeMap& attributes) {
  AttributeMap out = attributes;
  out.Remove("pads");
  out.Remove("auto_pad");
  return out;
}

/// sum(qx * qw) - zw * sum(qx), and in `bias` what the other terms add.
Value* FourTerms(Writer& writer, const Layer& in, const std::vector<int64_t>& pads,
                 std::vector<int32_t>& bias) {
  Value* x = in.x;
  const int32_t zx = in.qx.zeros[0];
  AttributeMap attributes = in.attributes;
  const size_t spatial = pads.size() / 2;
  const bool padded = std::any_of(pads.begin(), pads.end(), [](int64_t p) { return p != 0; });
  if (padded && zx != 0) {
    std::vector<int64_t> all(2 * (spatial + 2), 0);
    std::copy_n(pads.begin(), spatial, all.begin() + 2);
    std::copy_n(pads.begin() + static_cast<std::ptrdiff_t>(spatial), spatial,
                all.begin() + static_cast<std::ptrdiff_t>(spatial + 4));
    const DType dtype = x->type.dtype;
    x = writer.Add("Pad",
                   {x, writer.Constant("pads", Tensor::Vector(all)),
                    writer.ZeroPoint("pad_code", {zx}, dtype)},
                   "padded", dtype);
    attributes = WithoutPads(attributes);
  }
  Value* sums = writer.Add("ConvInteger", {x, in.w}, "products", DType::kInt32, attributes);
  const Tensor& w = in.w->constant;
  if (in.qw.any_zero()) {
    const bool one_group = attributes.Int("group", 1) == 1;
    Shape ones = w.shape();
    if (one_group) ones[0] = 1;
    Tensor weights(DType::kInt8, ones);
    std::fill_n(weights.data<int8_t>(), weights.count(), int8_t{1});
    Value* inputs = writer.Add("ConvInteger", {x, writer.Constant("ones", std::move(weights))},
                               "input_sums", DType::kInt32, std::move(attributes));
    Value* zeros = writer.Numbers("weight_zeros", in.qw.zeros, in.shape);
    Value* term = writer.Add("Mul", {inputs, zeros}, "input_term", DType::kInt32);
    sums = writer.Add("Sub", {sums, term}, "products_less_term", DType::kInt32);
  }
  for (int64_t m = 0; m < in.channels; ++m) {
    int64_t sum = 0;
    for (int64_t k = 0; k < in.taps; ++k) sum += w.AsInt64(m * in.taps + k);
    const int64_t zw = in.qw.ZeroAt(static_cast<size_t>(m));
    int32_t& to = bias[static_cast<size_t>(m)];
    to = Wrapped(to - zx * sum + in.taps * zx * zw);
  }
  return sums;
}

Value* SubtractFirst(Writer& writer, const Layer& in) {
  std::vector<Value*> inputs = {in.x, in.w};
  const bool weights = in.qw.any_zero();
  if (weights || in.qx.any_zero()) {
    inputs.push_back(writer.ZeroPoint("x_zero", in.qx.zeros, in.x->type.dtype));
  }
  if (weights) inputs.push_back(writer.ZeroPoint("w_zero", in.qw.zeros, in.w->type.dtype));
  return writer.Add("ConvInteger", std::move(inputs), "products", DType::kInt32, in.attributes);
}

}  // namespace

void FinishLayer(Writer& writer, const Layer& layer, const std::vector<int64_t>& pads,
                 const Tensor* given, const Output& to) {
  std::vector<int32_t> bias(static_cast<size_t>(layer.channels), 0);
  if (given != nullptr) std::copy_n(given->data<int32_t>(), layer.channels, bias.begin());
  std::vector<double> multipliers;
  for (const float scale : layer.qw.scales) {
    multipliers.push_back(
        ProductMultiplier(writer.form().requantize, layer.qx.scales[0], scale, to.scale));
  }
  Value* sums =
      writer.four_terms() ? FourTerms(writer, layer, pads, bias) : SubtractFirst(writer, layer);
  sums = writer.Plus(sums, bias, layer.shape, "bias");
  writer.Finish(sums, multipliers, layer.shape, to);
}

Reason LegalizeConv(Writer& writer) {
  const Node& node = writer.node();
  const Tensor* w = node.constant(3);
  if (w == nullptr) return "its weights are not constant";
  if (node.input(8) != nullptr && node.constant(8) == nullptr) return "its bias is not constant";
  if (w->rank() < 3 || w->dim(0) == 0 || w->count() == 0) return "its weights are empty";
  const int64_t channels = w->dim(0);
  const std::optional<Operand> qx = ConstantOperand(node, 1, 2);
  const std::optional<Operand> qw = ConstantOperand(node, 4, 5, channels);
  const std::optional<Output> to = ConstantOutput(node, 6, 7);
  if (!qx || !qw || !to) return kParametersNotConstant;
  if (RankOf(node.inputs[0]) != w->rank()) return "the rank of its input is not known";
  const std::optional<std::vector<int64_t>> pads =
      PadsOf(ConvWindow(node.attributes, w->shape()), node.inputs[0]);
  if (!pads && writer.four_terms() && qx->any_zero()) {
    return "its auto_pad needs the sizes of its input, which are open";
  }
  Shape shape(static_cast<size_t>(w->rank()) - 1, 1);
  shape[0] = channels;
  const Layer layer{node.inputs[0], node.inputs[3],        *qx,   *qw,
                    channels,       w->count() / channels, shape, node.attributes};
  FinishLayer(writer, layer, pads.value_or(std::vector<int64_t>()), node.constant(8), *to);
  return {};
}

}  // namespace requant::integers

// QLinearAveragePool, QLinearGlobalAveragePool
// Before: QLinearGlobalAveragePool(x)    After: FixedPointMultiply(ReduceSum(qx - zx)), clamped
// Before: QLinearAveragePool(x)          After: FixedPointMultiply(ConvInteger(x, ones)), clamped
// Conditions: the parameters are constant, channels come second, and the sizes that are divided by
//   are known: all spatial sizes, and for windows the number of channels.
// Formula: s_x / (s_y * n) * sum(qx - zx) for the n elements of a window. Without count_include_pad
//   a window at the border has fewer elements, so each position has a multiplier of its own. The
//   convolution has a group for each channel; its padding counts as zx, which adds 0.
#include <algorithm>
#include <utility>

#include "numeric/multiplier.h"
#include "ops/pooling/pool_windows.h"
#include "passes/integers/writer.h"
#include "passes/rewrite.h"

namespace requant::integers {
namespace {

constexpr const char* kOpenSizes = "the sizes of its input are open";
constexpr const char* kChannelsLast = "its channels come last";

bool ChannelsLast(const Node& node) {
  return node.attributes.Int("channels_last", 0) != 0 && RankOf(node.inputs[0]) > 2;
}

/// The sizes of x from `first` on; nullopt if one is open.
std::optional<Shape> Sizes(const Value* x, size_t first) {
  Shape out;
  for (size_t i = first; i < x->type.shape->size(); ++i) {
    const Dim& dim = (*x->type.shape)[i];
    if (!dim.known()) return {};
    out.push_back(dim.value);
  }
  return out;
}

}  // namespace

Reason LegalizeGlobalAverage(Writer& writer) {
  const Node& node = writer.node();
  Value* x = node.inputs[0];
  const std::optional<Operand> qx = ConstantOperand(node, 1, 2);
  const std::optional<Output> to = ConstantOutput(node, 3, 4);
  if (!qx || !to) return kParametersNotConstant;
  if (RankOf(x) < 3) return kOpenSizes;
  if (ChannelsLast(node)) return kChannelsLast;
  const std::optional<Shape> sizes = Sizes(x, 2);
  if (!sizes || NumElements(*sizes) == 0) return kOpenSizes;
  std::vector<int64_t> axes;
  for (size_t i = 0; i < sizes->size(); ++i) axes.push_back(static_cast<int64_t>(i) + 2);
  AttributeMap keep;
  keep.Set("keepdims", int64_t{1});
  Value* sums = writer.Add(
      "ReduceSum",
      {writer.Centered(x, qx->zeros[0], "x"), writer.Constant("axes", Tensor::Vector(axes))},
      "sums", DType::kInt32, std::move(keep));
  writer.Finish(
      sums,
      {AverageMultiplier(writer.form().requantize, qx->scales[0], to->scale, NumElements(*sizes))},
      {}, *to);
  return {};
}

Reason LegalizeAveragePool(Writer& writer) {
  const Node& node = writer.node();
  Value* x = node.inputs[0];
  const std::optional<Operand> qx = ConstantOperand(node, 1, 2);
  const std::optional<Output> to = ConstantOutput(node, 3, 4);
  if (!qx || !to) return kParametersNotConstant;
  if (RankOf(x) < 3 || RankOf(x) > 5) return kOpenSizes;
  if (ChannelsLast(node)) return kChannelsLast;
  std::optional<Shape> sizes = Sizes(x, 1);
  if (!sizes || NumElements(*sizes) == 0) return kOpenSizes;
  const int64_t channels = (*sizes)[0];
  sizes->insert(sizes->begin(), 1);  // one image
  const Window window = PoolWindow(node.attributes);
  const Geometry g = PlaceGeometry(window, *sizes);
  const size_t spatial = window.rank(), skipped = 3 - spatial;
  const bool include_pad = node.attributes.Int("count_include_pad", 0) != 0;
  std::vector<double> multipliers;
  ForEachWindow(g, [&](const auto& taps, const auto& start, int64_t) {
    const auto count = static_cast<int64_t>(AverageDivisor(g, taps, start, include_pad));
    multipliers.push_back(AverageMultiplier(writer.form().requantize, qx->scales[0], to->scale,
                                            count > 0 ? count : 1));
  });
  Shape ones = {channels, 1}, positions;
  std::vector<int64_t> pads(2 * spatial, 0);
  for (size_t i = 0; i < spatial; ++i) {
    const size_t at = i + skipped;
    ones.push_back(g.kernel[at]);
    positions.push_back(g.output[at]);
    // Windows of ceil_mode may reach beyond the padding.
    const int64_t reach = (g.output[at] - 1) * g.stride[at] + window.Extent(i);
    pads[i] = g.pad_begin[at];
    pads[i + spatial] = std::max<int64_t>(reach - g.input[at] - g.pad_begin[at], 0);
  }
  Tensor weights(DType::kInt8, ones);
  std::fill_n(weights.data<int8_t>(), weights.count(), int8_t{1});
  std::vector<Value*> inputs = {x, writer.Constant("ones", std::move(weights))};
  if (qx->any_zero()) inputs.push_back(writer.ZeroPoint("x_zero", qx->zeros, x->type.dtype));
  AttributeMap attributes;
  attributes.Set("group", channels);
  attributes.Set("kernel_shape", window.kernel);
  attributes.Set("strides", window.strides);
  attributes.Set("dilations", window.dilations);
  attributes.Set("pads", pads);
  Value* sums =
      writer.Add("ConvInteger", std::move(inputs), "sums", DType::kInt32, std::move(attributes));
  if (std::all_of(multipliers.begin(), multipliers.end(),
                  [&](double m) { return m == multipliers[0]; })) {
    multipliers.resize(1);
    positions.clear();
  }
  writer.Finish(sums, multipliers, positions, *to);
  return {};
}

}  // namespace requant::integers

#include "quant/weight_matrix.h"

#include <algorithm>

namespace requant {

WeightMatrix ViewWeights(const Node& node, QuantRule rule) {
  const Tensor& weights = node.inputs[1]->constant;
  WeightMatrix view;
  if (rule == QuantRule::kConv) {
    const bool transposed = node.Is("ConvTranspose");
    view.groups = std::max<int64_t>(1, node.attributes.Int("group", 1));
    view.rows = transposed ? weights.dim(1) * view.groups : weights.dim(0);
    view.scales = transposed && weights.dim(1) > 1 ? weights.dim(1) : view.rows;
    if (view.rows == 0) return view;
    view.k = weights.count() / view.rows;
    view.group_stride = weights.count() / view.groups;
    const int64_t channels = transposed ? weights.dim(0) / view.groups : weights.dim(1);
    view.taps = channels == 0 ? 1 : std::max<int64_t>(1, view.k / channels);
    view.row_stride = transposed ? view.taps : view.k;
    view.k_stride = transposed ? view.taps * weights.dim(1) : view.taps;
    return view;
  }
  const bool transposed = node.attributes.Int("transB", 0) != 0;
  view.rows = view.scales = weights.dim(transposed ? 0 : 1);
  view.k = weights.dim(transposed ? 1 : 0);
  view.row_stride = transposed ? view.k : 1;
  view.k_stride = transposed ? 1 : view.rows;
  return view;
}

}  // namespace requant

// Outlier channel splitting (Zhao et al. 2019, arXiv 1901.09504). The input channels of a layer
// with the largest weights are duplicated, with half the weights each: the outliers are halved and
// the function stays exactly the same. The layer before computes these channels twice. The method
// splits about 2 % of the channels of layers without groups.
#include <algorithm>
#include <numeric>

#include "base/sort.h"
#include "base/str_cat.h"
#include "quant/graph/prepare.h"
#include "quant/recover/equalize/chains.h"
#include "quant/recover/recovery.h"

namespace requant {
namespace {

/// Appends copies of slices along an axis; `factor` scales both the copies and the originals.
Tensor Repeat(const Tensor& from, int64_t axis, const std::vector<int64_t>& which, float factor) {
  Shape shape = from.shape();
  const auto at = static_cast<size_t>(axis);
  const int64_t dim = shape[at];
  int64_t inner = 1;
  for (size_t i = at + 1; i < shape.size(); ++i) inner *= shape[i];
  shape[at] += static_cast<int64_t>(which.size());
  Tensor out(DType::kFloat32, shape);
  const int64_t outer = dim * inner == 0 ? 0 : from.count() / (dim * inner);
  const float* source = from.data<float>();
  auto* to = out.data<float>();
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < shape[at]; ++i, to += inner) {
      const int64_t channel = i < dim ? i : which[static_cast<size_t>(i - dim)];
      const bool twice = std::find(which.begin(), which.end(), channel) != which.end();
      const float* slice = source + (o * dim + channel) * inner;
      for (int64_t k = 0; k < inner; ++k) to[k] = slice[k] * (twice ? factor : 1.0f);
    }
  }
  return out;
}

bool Plain(const Node* node) { return node->attributes.Int("group", 1) == 1; }

}  // namespace

Rewritten SplitChannels(Graph& graph, const QuantizeOptions&) {
  int64_t split = 0;
  for (const LayerPair& pair : FindPairs(graph)) {
    WeightEditor first(graph, pair.first);
    WeightEditor second(graph, pair.second);
    if (!Plain(pair.first) || !Plain(pair.second) || pair.channels < 8 ||
        (!first.bias.empty() && first.bias.count() != pair.channels)) {
      continue;
    }
    std::vector<size_t> sorted(static_cast<size_t>(pair.channels));
    std::iota(sorted.begin(), sorted.end(), size_t{0});
    std::vector<double> range;
    for (int64_t i = 0; i < pair.channels; ++i) range.push_back(second.InputRange(i));
    StableSort(sorted, [&](size_t a, size_t b) { return range[a] > range[b]; });
    const auto count = static_cast<std::ptrdiff_t>((pair.channels + 49) / 50);
    const std::vector<int64_t> order(sorted.begin(), sorted.begin() + count);
    const bool conv = pair.first->Is(Op::kConv);
    const int64_t out_axis = conv || pair.first->attributes.Int("transB", 0) ? 0 : 1;
    const int64_t in_axis = conv || pair.second->attributes.Int("transB", 0) ? 1 : 0;
    first.weights = Repeat(first.weights, out_axis, order, 1);
    if (!first.bias.empty()) first.bias = Repeat(first.bias, 0, order, 1);
    second.weights = Repeat(second.weights, in_axis, order, 0.5f);
    first.Store();
    second.Store();
    for (Node* node : {pair.first, pair.activation}) {
      if (node) node->outputs[0]->type.shape.reset();
    }
    split += static_cast<int64_t>(order.size());
  }
  graph.RemoveUnusedValues();
  RefreshTypes(graph);
  return {split, StrCat(split, " channels split")};
}

}  // namespace requant

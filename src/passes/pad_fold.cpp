// A Pad in front of a window operator
// Before: Conv(Pad(x))                 After: Conv(x) with more padding
// Before: AveragePool(Pad(x))          After: AveragePool(x) with padding that counts
// Before: MaxPool(Pad(x, -inf))        After: MaxPool(x) with padding
// Before: QLinearConv(Pad(x, z))       After: QLinearConv(x) with padding
// Conditions: mode constant with the value that the operator itself pads with (0, 0, the lowest
//   float, the input's zero point); only spatial axes, nothing cropped; explicit padding in the
//   operator; nobody else reads the padded value. AveragePool must not have padding of its own that
//   does not count, no ceil_mode and opset >= 7 (count_include_pad). Pools want every pad smaller
//   than the window (onnxruntime core/providers/cpu/nn/pool_attributes.h refuses others).
#include "passes/pad_fold.h"

#include <algorithm>
#include <limits>

#include "passes/rewrite.h"

namespace requant {
namespace {

/// The constant value that a Pad fills in; nothing when it is not known.
std::optional<double> PadValue(const Node& node) {
  if (node.input(2)) return ScalarOf(node.input(2));
  return double{node.attributes.Float("value", 0)};
}

bool FitsValue(const Node& window, double value) {
  if (window.Is("Conv") || window.Is("AveragePool")) return value == 0;
  if (window.Is("MaxPool")) return value <= -double{std::numeric_limits<float>::max()};
  if (window.Is("QLinearConv")) {
    const std::optional<double> zero_point = ScalarOf(window.input(2));
    return zero_point && *zero_point == value;
  }
  return false;
}

}  // namespace

std::optional<std::vector<int64_t>> PadsOf(const Node& node) {
  if (node.input(1) == nullptr) {
    // Opset 2 to 10: an attribute.
    std::vector<int64_t> pads = node.attributes.Ints("pads");
    if (pads.empty()) return {};
    return pads;
  }
  if (node.constant(1) == nullptr) return {};
  std::vector<int64_t> pads = node.constant(1)->ToInts();
  if (node.input(3) == nullptr) return pads;
  // Opset 18: pads for some axes only.
  const int64_t rank = RankOf(node.input(0));
  if (node.constant(3) == nullptr || rank < 0) return {};
  const std::vector<int64_t> axes = node.constant(3)->ToInts();
  if (pads.size() != 2 * axes.size()) return {};
  std::vector<int64_t> all(static_cast<size_t>(2 * rank), 0);
  for (size_t i = 0; i < axes.size(); ++i) {
    const int64_t axis = axes[i] < 0 ? axes[i] + rank : axes[i];
    if (axis < 0 || axis >= rank) return {};
    all[static_cast<size_t>(axis)] = pads[i];
    all[static_cast<size_t>(axis + rank)] = pads[i + axes.size()];
  }
  return all;
}

bool FoldPad(Graph& graph, Node* node) {
  Value* padded = node->input(0);
  if (padded == nullptr || padded->producer == nullptr || !padded->producer->Is("Pad")) {
    return false;
  }
  Node* pad = padded->producer;
  if (graph.SoleConsumer(padded) != node || pad->input(0) == nullptr) return false;
  const std::optional<std::vector<int64_t>> pads = PadsOf(*pad);
  const std::optional<double> value = PadValue(*pad);
  if (!pads || !value || pad->attributes.String("mode", "constant") != "constant" ||
      !FitsValue(*node, *value)) {
    return false;
  }
  const size_t rank = pads->size() / 2;
  if (pads->size() % 2 != 0 || rank < 3 || (*pads)[0] != 0 || (*pads)[1] != 0 ||
      (*pads)[rank] != 0 || (*pads)[rank + 1] != 0 ||
      std::any_of(pads->begin(), pads->end(), [](int64_t p) { return p < 0; })) {
    return false;
  }
  const std::string auto_pad = node->attributes.String("auto_pad", "NOTSET");
  if (auto_pad != "NOTSET" && auto_pad != "VALID" && !auto_pad.empty()) return false;
  const size_t spatial = rank - 2;
  std::vector<int64_t> merged = node->attributes.Ints("pads");
  if (merged.empty() || auto_pad == "VALID") merged.assign(2 * spatial, 0);
  if (merged.size() != 2 * spatial) return false;
  const bool had_pads = std::any_of(merged.begin(), merged.end(), [](int64_t p) { return p != 0; });
  for (size_t i = 0; i < spatial; ++i) {
    merged[i] += (*pads)[i + 2];
    merged[i + spatial] += (*pads)[i + 2 + rank];
  }
  const bool average = node->Is("AveragePool");
  if (average || node->Is("MaxPool")) {
    const std::vector<int64_t> kernel = node->attributes.Ints("kernel_shape");
    if (kernel.size() != spatial || node->attributes.Int("ceil_mode", 0) != 0) return false;
    for (size_t i = 0; i < 2 * spatial; ++i) {
      if (merged[i] >= kernel[i % spatial]) return false;
    }
    // MaxPool's indices count in the padded image.
    if (node->outputs.size() > 1) return false;
  }
  if (average) {
    const bool counts = node->attributes.Int("count_include_pad", 0) != 0;
    if ((had_pads && !counts) || graph.opset() < 7) return false;
    node->attributes.Set("count_include_pad", int64_t{1});
  }
  node->attributes.Remove("auto_pad");
  node->attributes.Set("pads", std::move(merged));
  graph.SetInput(node, 0, pad->input(0));
  return true;
}

}  // namespace requant

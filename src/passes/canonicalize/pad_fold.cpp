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
//   A Transpose may stand between Pad and operator, and stays.
//
// A Slice behind a convolution
// Before: Slice(Conv(x)), Slice(Transpose(Conv(x)))
// After:  the same without Slice and less padding
// Conditions: stride 1, explicit padding of at least what is cut off, spatial axes of known size,
//   slices of step 1; nobody else reads the values in between.
// Formula: a window operator pads with the same value; with stride 1, row i of what is left is row
//   i + cut.
#include "passes/canonicalize/pad_fold.h"

#include <algorithm>
#include <limits>

#include "passes/rewrite.h"

namespace requant {
namespace {

/// The constant value that a Pad fills in; nullopt when it is unknown.
std::optional<double> PadValue(const Node& node) {
  if (node.input(2)) return ScalarOf(node.input(2));
  return double{node.attributes.Float("value", 0)};
}

/// The order of a Transpose of 3 dimensions or more; empty for any other node.
std::vector<int64_t> PermOf(const Node* node) {
  if (node == nullptr || !node->Is(Op::kTranspose) || node->input(0) == nullptr) return {};
  std::vector<int64_t> perm = node->attributes.Ints("perm");
  if (perm.size() < 3) perm.clear();
  return perm;
}

bool FitsValue(const Node& window, double value) {
  if (window.Is(Op::kConv) || window.Is(Op::kAveragePool)) return value == 0;
  if (window.Is(Op::kMaxPool)) return value <= -double{std::numeric_limits<float>::max()};
  if (window.Is(Op::kQLinearConv)) {
    const std::optional<double> zero_point = ScalarOf(window.input(2));
    return zero_point && *zero_point == value;
  }
  return false;
}

}  // namespace

std::optional<std::vector<int64_t>> PadsOf(const Node& node) {
  if (node.input(1) == nullptr) {
    // Opsets 2 to 10 have an attribute.
    std::vector<int64_t> pads = node.attributes.Ints("pads");
    if (pads.empty()) return {};
    return pads;
  }
  if (node.constant(1) == nullptr) return {};
  std::vector<int64_t> pads = node.constant(1)->ToInts();
  if (node.input(3) == nullptr) return pads;
  // From opset 18 on pads may be for some axes only.
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
  if (padded == nullptr || graph.SoleConsumer(padded) != node) return false;
  Node* between = padded->producer;
  const std::vector<int64_t> perm = PermOf(between);
  if (!perm.empty()) padded = between->input(0);
  if (padded == nullptr || padded->producer == nullptr || !padded->producer->Is(Op::kPad)) {
    return false;
  }
  Node* pad = padded->producer;
  Node* reader = perm.empty() ? node : between;
  if (graph.SoleConsumer(padded) != reader || pad->input(0) == nullptr) return false;
  std::optional<std::vector<int64_t>> pads = PadsOf(*pad);
  if (pads && !perm.empty()) {
    if (pads->size() != 2 * perm.size()) return false;
    const std::vector<int64_t> old = *pads;
    for (size_t i = 0; i < pads->size(); ++i) {
      (*pads)[i] =
          old[static_cast<size_t>(perm[i % perm.size()]) + (i < perm.size() ? 0 : perm.size())];
    }
  }
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
  const bool average = node->Is(Op::kAveragePool);
  if (average || node->Is(Op::kMaxPool)) {
    const std::vector<int64_t> kernel = node->attributes.Ints("kernel_shape");
    if (kernel.size() != spatial || node->attributes.Int("ceil_mode", 0) != 0) return false;
    for (size_t i = 0; i < 2 * spatial; ++i) {
      if (merged[i] >= kernel[i % spatial]) return false;
    }
    // MaxPool's indices would count in the padded image.
    if (node->outputs.size() > 1) return false;
  }
  if (average) {
    const bool counts = node->attributes.Int("count_include_pad", 0) != 0;
    if ((had_pads && !counts) || graph.opset() < 7) return false;
    node->attributes.Set("count_include_pad", int64_t{1});
  }
  node->attributes.Remove("auto_pad");
  node->attributes.Set("pads", std::move(merged));
  graph.SetInput(reader, 0, pad->input(0));
  if (reader == between) {
    // The transposed value gets the size of the unpadded one.
    Value* value = between->output();
    value->type.shape.reset();
    if (const auto& from = pad->input(0)->type.shape; from && from->size() == perm.size()) {
      SymbolicShape shape;
      for (const int64_t axis : perm) shape.push_back((*from)[static_cast<size_t>(axis)]);
      value->type.shape = std::move(shape);
    }
    graph.TypeChanged(value);
  }
  return true;
}

bool FoldCrop(Graph& graph, Node* slice) {
  Value* whole = slice->input(0);
  if (whole == nullptr || graph.SoleConsumer(whole) != slice || RankOf(whole) < 3) return false;
  const std::vector<int64_t> perm = PermOf(whole->producer);
  Node* conv = whole->producer;
  if (!perm.empty()) {
    if (graph.SoleConsumer(conv->input(0)) != conv) return false;
    conv = conv->input(0)->producer;
  }
  if (conv == nullptr || !conv->Is(Op::kConv)) return false;
  Value* result = conv->output();
  const auto ones = [](const std::vector<int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](int64_t item) { return item == 1; });
  };
  const std::string auto_pad = conv->attributes.String("auto_pad", "NOTSET");
  std::vector<int64_t> pads = conv->attributes.Ints("pads");
  const auto rank = static_cast<size_t>(RankOf(whole));
  if (!ones(conv->attributes.Ints("strides")) || pads.size() != 2 * (rank - 2) ||
      (auto_pad != "NOTSET" && !auto_pad.empty()) || RankOf(result) != RankOf(whole)) {
    return false;
  }
  // Inputs from opset 10 on, attributes before.
  std::vector<int64_t> lists[3];  // starts, ends, axes
  constexpr const char* kNames[] = {"starts", "ends", "axes"};
  for (size_t i = 0; i < 3; ++i) {
    if (slice->inputs.size() > 1) {
      if (slice->constant(i + 1) == nullptr) return false;
      lists[i] = slice->constant(i + 1)->ToInts();
    } else {
      lists[i] = slice->attributes.Ints(kNames[i]);
    }
    if (lists[i].size() != lists[0].size()) return false;
  }
  if (slice->input(4) && !(slice->constant(4) && ones(slice->constant(4)->ToInts()))) return false;
  ValueType types[2] = {result->type, whole->type};
  for (size_t i = 0; i < lists[0].size(); ++i) {
    const int64_t axis = lists[2][i] + (lists[2][i] < 0 ? static_cast<int64_t>(rank) : 0);
    if (axis < 0 || axis >= static_cast<int64_t>(rank)) return false;
    const auto outer = static_cast<size_t>(axis);
    const auto inner = perm.empty() ? outer : static_cast<size_t>(perm[outer]);
    const Dim& dim = (*whole->type.shape)[outer];
    if (inner < 2 || !dim.known()) return false;
    const auto bound = [&dim](int64_t index) {
      return std::clamp<int64_t>(index < 0 ? index + dim.value : index, 0, dim.value);
    };
    const int64_t start = bound(lists[0][i]);
    const int64_t end = bound(lists[1][i]);
    int64_t& before = pads[inner - 2];
    int64_t& after = pads[inner - 2 + (rank - 2)];
    if (end <= start || before < start || after < dim.value - end) return false;
    before -= start;
    after -= dim.value - end;
    (*types[0].shape)[inner] = end - start;
    (*types[1].shape)[outer] = end - start;
  }
  if (!CanReplace(graph, slice->output(), whole)) return false;
  conv->attributes.Set("pads", std::move(pads));
  result->type = std::move(types[0]);
  whole->type = std::move(types[1]);
  graph.TypeChanged(result);
  return Bypass(graph, slice, whole);
}

}  // namespace requant

#include "quant/recover/equalize/chains.h"

#include <algorithm>
#include <cmath>

#include "quant/assign/assign.h"
#include "quant/grid/weight_matrix.h"

namespace requant {
namespace {

bool IsLayer(const Node* node) {
  return node && !node->Is(Op::kConvTranspose) && HasWeightMatrix(*node, RuleOf(*node));
}

bool IsHomogeneous(const Node* node) {
  if (node->Is(Op::kRelu)) return true;
  const Tensor* low = node->constant(1);
  return node->Is(Op::kClip) && low && low->AsDouble(0) == 0 &&
         (node->input(2) == nullptr || node->constant(2) != nullptr);
}

}  // namespace

std::vector<LayerPair> FindPairs(Graph& graph) {
  std::vector<LayerPair> pairs;
  for (const auto& node : graph.nodes()) {
    if (!IsLayer(node.get())) continue;
    LayerPair pair;
    pair.first = node.get();
    Node* next = graph.SoleConsumer(node->outputs[0]);
    if (next && IsHomogeneous(next) && next->inputs[0] == node->outputs[0]) {
      pair.activation = next;
      next = graph.SoleConsumer(next->outputs[0]);
    }
    if (!IsLayer(next)) continue;
    pair.second = next;
    const Value* read = (pair.activation ? pair.activation : pair.first)->outputs[0];
    if (next->inputs[0] != read || next->Is(Op::kConv) != node->Is(Op::kConv)) continue;
    const WeightEditor first(graph, pair.first);
    const WeightEditor second(graph, pair.second);
    if (first.outputs() != second.inputs()) continue;
    pair.channels = first.outputs();
    pairs.push_back(pair);
  }
  return pairs;
}

WeightEditor::WeightEditor(Graph& graph, Node* node) : graph_(graph), node_(node) {
  weights = node->inputs[1]->constant.Clone();
  if (const Tensor* constant = node->constant(2)) bias = constant->Clone();
  if (node->Is(Op::kConv)) {
    groups_ = std::max<int64_t>(1, node->attributes.Int("group", 1));
    outputs_ = weights.dim(0);
    inputs_ = weights.dim(1) * groups_;
    taps_ = outputs_ * weights.dim(1) == 0 ? 0 : weights.count() / (outputs_ * weights.dim(1));
    return;
  }
  rows_first_ = node->attributes.Int("transB", 0) != 0;
  outputs_ = weights.dim(rows_first_ ? 0 : 1);
  inputs_ = weights.dim(rows_first_ ? 1 : 0);
}

template <typename Body>
void WeightEditor::ForOutput(int64_t i, Body body) const {
  const int64_t each = inputs_ / groups_ * taps_;
  for (int64_t k = 0; k < each; ++k) body(rows_first_ ? i * each + k : k * outputs_ + i);
}

template <typename Body>
void WeightEditor::ForInput(int64_t i, Body body) const {
  if (!rows_first_) {
    for (int64_t row = 0; row < outputs_; ++row) body(i * outputs_ + row);
    return;
  }
  const int64_t per_group = inputs_ / groups_;
  const int64_t rows = outputs_ / groups_;
  const int64_t group = i / per_group;
  for (int64_t row = group * rows; row < (group + 1) * rows; ++row) {
    for (int64_t tap = 0; tap < taps_; ++tap) {
      body((row * per_group + i % per_group) * taps_ + tap);
    }
  }
}

double WeightEditor::OutputRange(int64_t i) const {
  double largest = 0;
  const float* data = weights.data<float>();
  ForOutput(i, [&](int64_t at) {
    largest = std::max(largest, std::fabs(static_cast<double>(data[at])));
  });
  return largest;
}

double WeightEditor::InputRange(int64_t i) const {
  double largest = 0;
  const float* data = weights.data<float>();
  ForInput(i, [&](int64_t at) {
    largest = std::max(largest, std::fabs(static_cast<double>(data[at])));
  });
  return largest;
}

void WeightEditor::ScaleOutput(int64_t i, double factor) {
  auto* data = weights.data<float>();
  ForOutput(i, [&](int64_t at) { data[at] = static_cast<float>(data[at] * factor); });
  if (bias.empty()) return;
  float& own = bias.data<float>()[bias.count() == 1 ? 0 : i];
  own = static_cast<float>(own * factor);
}

void WeightEditor::ScaleInput(int64_t i, double factor) {
  auto* data = weights.data<float>();
  ForInput(i, [&](int64_t at) { data[at] = static_cast<float>(data[at] * factor); });
}

void WeightEditor::Store() {
  graph_.SetInput(node_, 1, graph_.AddConstant(node_->inputs[1]->name, weights));
  if (!bias.empty()) {
    graph_.SetInput(node_, 2, graph_.AddConstant(node_->inputs[2]->name, bias));
  }
}

}  // namespace requant

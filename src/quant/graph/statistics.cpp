// FindStatistics
//
// A statistic is the result of a reduction of data, or a function of statistics alone. An operator
// applies a statistic if it divides by it, or multiplies by one that passed a root, a reciprocal or
// a power; a gate (x * Sigmoid(mean of x)) does not. From there the search goes back through
// functions, reductions and operators that move values, along both operands, the latest value
// first, until the two paths meet at the value that is normalized. The operators in between belong
// to the normalization if one of them is a reduction, and so do those that center that value (x -
// mean of x) before it. A root of a sum of squares counts as a normalization even without a
// division (pooling of standard deviations).
#include "quant/graph/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace requant {
namespace {

/// The operands of the applying operator from which the search reached a value.
enum Side : unsigned { kData = 1, kStatistic = 2 };

/// Whether the weights compute sums, as exporters write sums and box filters: none of them is
/// negative.
bool AddsUp(const Tensor* weights) {
  if (weights == nullptr || weights->dtype() != DType::kFloat32 || weights->count() == 0) {
    return false;
  }
  const auto values = weights->values<float>();
  return std::all_of(values.begin(), values.end(), [](float value) { return value >= 0; });
}

bool IsReduction(const Node& node) {
  if (!node.domain.empty()) return false;
  constexpr std::string_view kPools[] = {
      "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "AveragePool", "LpPool",
      "MaxPool",           "CumSum"};
  if (std::find(std::begin(kPools), std::end(kPools), node.op_type) != std::end(kPools)) {
    return true;
  }
  if (node.Is(Op::kMatMul) || node.Is(Op::kGemm) || node.Is(Op::kConv)) {
    return node.input(2) == nullptr && AddsUp(node.constant(1));
  }
  return node.op_type.starts_with("Reduce");
}

/// Whether the operator is an elementwise function, or moves elements.
bool IsSimple(const Node& node) {
  const OpDef* op = FindOp(node);
  return op && (op->fusion == FusionRule::kBroadcast || op->fusion == FusionRule::kInjective) &&
         node.outputs.size() == 1;
}

bool IsSquare(const Node& node) {
  if (node.Is(Op::kMul)) return node.inputs[0] == node.inputs[1];
  const Tensor* power = node.Is(Op::kPow) ? node.constant(1) : nullptr;
  return power && power->count() == 1 && power->AsDouble(0) == 2;
}

class Finder {
 public:
  Finder(const Graph& graph, const std::set<const Value*>& soi) : graph_(graph), soi_(soi) {
    graph.Renumber();
  }

  std::set<const Node*> Run() {
    for (const auto& node : graph_.nodes()) FindStatistic(*node);
    for (const auto& node : graph_.nodes()) {
      std::vector<const Value*> sources = Apply(*node);
      if (sources.empty()) sources = Deviation(*node);
      for (size_t i = 0; i < sources.size(); ++i) {  // the list grows
        const std::vector<const Value*> more = Centre(sources[i]);
        sources.insert(sources.end(), more.begin(), more.end());
      }
    }
    return std::move(found_);
  }

 private:
  using Region = std::set<const Node*>;

  bool IsData(const Value* value) const {
    return value && !value->is_constant() && !soi_.contains(value);
  }

  std::vector<const Value*> DataOf(const Node& node) const {
    std::vector<const Value*> data;
    for (const Value* input : node.inputs) {
      if (IsData(input)) data.push_back(input);
    }
    return data;
  }

  bool IsStatistic(const Value* value) const { return statistics_.contains(value); }
  /// Whether the statistic passed a root, a reciprocal or a power, so that it is a scale.
  bool IsScale(const Value* value) const {
    const auto found = statistics_.find(value);
    return found != statistics_.end() && found->second;
  }

  /// Whether the operator turns a statistic into a scale.
  bool MakesScale(const Node& node) const {
    if (node.Is(Op::kSqrt) || node.Is(Op::kReciprocal)) return true;
    if (node.Is(Op::kDiv)) return IsStatistic(node.input(1));
    if (node.op_type == "ReduceL2" || node.op_type == "GlobalLpPool" || node.op_type == "LpPool") {
      return true;
    }
    const Tensor* power = node.Is(Op::kPow) ? node.constant(1) : nullptr;
    if (power == nullptr || power->count() != 1) return false;
    const double exponent = power->AsDouble(0);
    return exponent < 0 || exponent != std::floor(exponent);
  }

  void FindStatistic(const Node& node) {
    const std::vector<const Value*> data = DataOf(node);
    if (data.empty() || node.output() == nullptr || !IsData(node.output())) return;
    bool scale = MakesScale(node);
    if (!IsReduction(node)) {
      if (!IsSimple(node)) return;
      for (const Value* input : data) {
        if (!IsStatistic(input)) return;
        scale = scale || IsScale(input);
      }
    }
    statistics_[node.output()] = scale;
  }

  /// If a normalization ends with the node, adds it to the result; returns the values that it
  /// normalizes.
  std::vector<const Value*> Apply(const Node& node) {
    const bool quotient = node.Is(Op::kDiv);
    if ((!quotient && !node.Is(Op::kMul)) || node.inputs.size() != 2) return {};
    for (const size_t slot : {size_t{1}, size_t{0}}) {
      const Value* statistic = node.inputs[slot];
      const Value* data = node.inputs[1 - slot];
      if (!IsData(data) || (quotient && slot == 0)) continue;
      // The product of two statistics is a statistic itself.
      if (!(quotient ? IsStatistic(statistic) : IsScale(statistic) && !IsStatistic(data))) continue;
      std::vector<const Value*> sources = Meet(node, data, statistic);
      if (!sources.empty()) return sources;
    }
    return {};
  }

  /// Adds the root of a statistic of squares, which counts by itself.
  std::vector<const Value*> Deviation(const Node& node) {
    const bool root =
        node.Is(Op::kSqrt) || (node.Is(Op::kPow) && MakesScale(node)) || node.Is(Op::kLog);
    if (!root || !IsStatistic(node.output()) || IsScale(node.input(0))) return {};
    Region region = {&node};
    std::vector<const Node*> open = {&node};
    std::set<const Value*> sources;
    bool squares = false;
    while (!open.empty()) {
      const Node& last = *open.back();
      open.pop_back();
      for (const Value* input : DataOf(last)) {
        const Node* before = input->producer;
        const bool square = before && IsReduction(last) && IsSquare(*before);
        squares = squares || square || last.op_type == "ReduceSumSquare";
        if (square) {
          region.insert(before);
          sources.insert(before->inputs[0]);
        } else if (IsReduction(last) || before == nullptr) {
          sources.insert(input);
        } else if (region.insert(before).second) {
          open.push_back(before);
        }
      }
    }
    if (!squares) return {};
    found_.insert(region.begin(), region.end());
    return {sources.begin(), sources.end()};
  }

  /// Adds an operator that subtracts a statistic from a value or adds one to it before a
  /// normalization reads the value, perhaps through functions, as in Exp(x - max of x) / its sum.
  std::vector<const Value*> Centre(const Value* value) {
    Region between;
    while (value->producer && IsSimple(*value->producer)) {
      const Node& node = *value->producer;
      const std::vector<const Value*> data = DataOf(node);
      if (data.size() == 1) {
        between.insert(&node);
        value = data[0];
        continue;
      }
      if (data.size() != 2) return {};
      for (const size_t slot : {size_t{1}, size_t{0}}) {
        if (!IsStatistic(data[slot]) || IsStatistic(data[1 - slot])) continue;
        std::vector<const Value*> sources = Meet(node, data[1 - slot], data[slot]);
        if (!sources.empty()) found_.insert(between.begin(), between.end());
        return sources;
      }
      return {};
    }
    return {};
  }

  /// Finds the values from which both operands are computed, and adds the operators in between.
  std::vector<const Value*> Meet(const Node& last, const Value* data, const Value* statistic) {
    const auto later = [](const Value* a, const Value* b) {
      const size_t x = a->producer ? a->producer->position + 1 : 0;
      const size_t y = b->producer ? b->producer->position + 1 : 0;
      return x != y ? x > y : a->position < b->position;
    };
    std::map<const Value*, unsigned, decltype(later)> open(later);
    open[data] |= kData;
    open[statistic] |= kStatistic;
    Region region = {&last};
    std::set<const Value*> sources;
    while (!open.empty()) {
      const auto [value, sides] = *open.begin();
      open.erase(open.begin());
      const Node* node = value->producer;
      const bool known = node && (IsReduction(*node) || IsSimple(*node));
      // A mean that both operands use is computed from the values at which they meet.
      const bool shared = known && IsStatistic(value) && !open.empty();
      if (sides == (kData | kStatistic) && !shared) {
        sources.insert(value);
        continue;
      }
      if (!known) continue;
      const bool waiting = sides == kStatistic || IsStatistic(value) ||
                           std::any_of(open.begin(), open.end(), [](const auto& entry) {
                             return entry.second == kStatistic;
                           });
      if (!waiting) continue;
      region.insert(node);
      for (const Value* input : DataOf(*node)) open[input] |= sides;
    }
    if (sources.empty()) return {};
    // Operators that do not depend on these values (a factor that another layer makes) are not part
    // of the normalization.
    Region own;
    bool reduces = false;
    std::set<const Value*> made(sources.begin(), sources.end());
    std::vector<const Node*> in_order(region.begin(), region.end());
    std::sort(in_order.begin(), in_order.end(),
              [](const Node* a, const Node* b) { return a->position < b->position; });
    for (const Node* node : in_order) {
      const std::vector<const Value*> inputs = DataOf(*node);
      if (std::none_of(inputs.begin(), inputs.end(),
                       [&made](const Value* input) { return made.contains(input); })) {
        continue;
      }
      own.insert(node);
      made.insert(node->output());
      reduces = reduces || IsReduction(*node);
    }
    if (!reduces) return {};
    found_.insert(own.begin(), own.end());
    return {sources.begin(), sources.end()};
  }

  const Graph& graph_;
  const std::set<const Value*>& soi_;
  std::map<const Value*, bool> statistics_;  // whether it is a scale
  Region found_;
};

}  // namespace

std::set<const Node*> FindStatistics(const Graph& graph, const std::set<const Value*>& soi) {
  return Finder(graph, soi).Run();
}

}  // namespace requant

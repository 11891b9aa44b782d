// Before: the scales of a, b and c = a + b come from their ranges, so that s_a / s_c is any number
// After: s_a = A / 2^n * s_c, s_b = B / 2^n * s_c; A, B < 128, n <= 7
// Conditions: no scale grows by more than kMostWidening. Among sums that share values the first to
//   be computed decides: the scale of a value changes once.
// Formula: steps only grow. If s_c is free: s_c' = s_b * 2^n / floor(s_b * 2^n / s_c) if s_b is
//   decided already, else s_c' = s_c; then s_a' = ceil(s_a * 2^n / s_c') * s_c' / 2^n. The n that
//   widens least is taken.
// Why: a sum of bytes is one dot product of bytes then, and twice as fast; a step 1 % wider is
//   0.1 dB of rounding noise.
#include "quant/grid/simple_sums.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "numeric/qadd.h"

namespace requant {
namespace {

constexpr double kMostWidening = 1.02;
constexpr int kLeastBits = 5;  // sums with fewer bits are fast with any scales (MakeQAddNarrow)

/// The scales of two operands and their sum.
struct SumScales {
  double a = 0, b = 0, sum = 0;
};

/// The least k / 2^n of `unit` that is not below `scale`; nothing if k would not fit.
std::optional<double> RoundUp(double scale, double unit, double power) {
  // An operand that was decided with this unit must keep its exact scale.
  const double k = std::ceil(scale * power / unit - 1e-6);
  if (!(k >= 1 && k <= kSimpleFactor)) return std::nullopt;
  return k * unit / power;
}

/// The least scale of a sum, at least `sum`, of which a decided operand is k / 2^n.
std::optional<double> SumFor(double operand, double sum, double power) {
  const double k = std::floor(operand * power / sum + 1e-6);
  if (!(k >= 1 && k <= kSimpleFactor)) return std::nullopt;
  return operand * power / k;
}

class SumSimplifier {
 public:
  SumSimplifier(QuantizationRecord& record, const std::function<bool(int)>& given)
      : record_(record), given_(given) {}

  void Visit(const Node& node, const OperatorQuantization& op) {
    if (node.inputs[0]->is_constant() || node.inputs[1]->is_constant()) return;
    const int a = record_.RootIndex(op.inputs[0]);
    const int b = record_.RootIndex(op.inputs[1]);
    const int sum = record_.RootIndex(op.outputs[0]);
    if (a == b || a == sum || b == sum || !Fits(a) || !Fits(b) || !Fits(sum)) return;
    const SumScales old{Scale(a), Scale(b), Scale(sum)};
    std::optional<SumScales> best;
    double least = kMostWidening;
    for (int n = kSimpleShift; n >= 1; --n) {
      const auto found = Find(old, IsDecided(a), IsDecided(b), IsDecided(sum), std::ldexp(1.0, n));
      if (!found) continue;
      const double most = std::max({found->a / old.a, found->b / old.b, found->sum / old.sum});
      if (most > least) continue;
      least = most;
      best = found;
    }
    if (!best) return;
    Set(a, best->a);
    Set(b, best->b);
    Set(sum, best->sum);
  }

 private:
  static std::optional<SumScales> Find(const SumScales& old, bool a_decided, bool b_decided,
                                       bool sum_decided, double power) {
    if (int{a_decided} + int{b_decided} + int{sum_decided} > 1) return std::nullopt;
    std::optional<double> sum = old.sum;
    if (a_decided) sum = SumFor(old.a, old.sum, power);
    if (b_decided) sum = SumFor(old.b, old.sum, power);
    if (!sum) return std::nullopt;
    const std::optional<double> a = RoundUp(old.a, *sum, power);
    const std::optional<double> b = RoundUp(old.b, *sum, power);
    if (!a || !b) return std::nullopt;
    return SumScales{a_decided ? old.a : *a, b_decided ? old.b : *b, *sum};
  }

  bool Fits(int index) const {
    const TensorQuantizationConfig& config = record_.configs[static_cast<size_t>(index)];
    return config.state == QuantizationState::kActivated && config.scale.size() == 1 &&
           config.bits >= kLeastBits && !config.exotic_activation() && !config.wide() &&
           !(config.policy & kPowerOf2) &&
           // users of other formulas want their exact scales
           config.formula == ScaleFormula::kOnnx;
  }
  bool IsDecided(int index) const { return decided_.contains(index) || given_(index); }
  double Scale(int index) const {
    return static_cast<double>(record_.configs[static_cast<size_t>(index)].scale[0]);
  }
  void Set(int index, double scale) {
    decided_.insert(index);
    record_.configs[static_cast<size_t>(index)].scale[0] = static_cast<float>(scale);
  }

  QuantizationRecord& record_;
  const std::function<bool(int)>& given_;
  std::set<int> decided_;
};

}  // namespace

void SimplifySums(const Graph& graph, QuantizationRecord& record,
                  const std::function<bool(int)>& given) {
  SumSimplifier simplifier(record, given);
  for (const auto& node : graph.nodes()) {
    const OperatorQuantization* op = record.Find(node->name);
    if (op && op->quantized && !op->simulated && op->rule == QuantRule::kAdd) {
      simplifier.Visit(*node, *op);
    }
  }
}

}  // namespace requant

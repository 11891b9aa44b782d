// SubstituteSigmoid
// Before: Sigmoid(x), x * Sigmoid(x) (SiLU)
// After:  HardSigmoid(x, 1/6, 1/2), HardSwish(x) (before opset 14 x * HardSigmoid(x))
// Bound: |difference| <= 0.07 for Sigmoid (near |x| = 1.5 and 3), 0.143 for SiLU (at |x| = 3).
//
// SubstituteSiluByRelu6
// Before: x * Sigmoid(x)
// After:  Clip(x, 0, 6)
// Bound: |difference| <= 0.279 below 6 (at x = -1.28), x - 6 above.
//
// SubstituteGelu
// Before: Gelu(x)
// After:  x * Sigmoid(1.702 x)   (Hendrycks & Gimpel, 2016), as one operator
// Bound: |difference| <= 0.021
//
// SubstituteGeluByTanh
// Before: Gelu(x)
// After:  x / 2 * (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3)))   (the same): FastGelu of
//   com.microsoft
// Bound: |difference| <= 4.8e-4
//
// Conditions: float32. All are optional: they change results. Quantized sessions read such
// functions from tables of 256 entries and gain nothing. The graph before is the way back: a caller
// that may want it keeps the model (Model.substitute gives a new one and leaves the original
// alone).
#include "passes/pass.h"
#include "passes/patterns.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr PatternRule kHard[] = {
    {"Sigmoid(x)", "HardSigmoid(x)", 1},
    {"@Silu(x)", "HardSwish(x)", 14},
    {"@Silu(x)", "Mul(x,HardSigmoid(x))", 1},
};
constexpr PatternRule kRelu6[] = {
    {"@Silu(x)", "Clip(x,0,6)", 11},
    {"Mul(x,Sigmoid(x))", "Clip(x,0,6)", 11},
};
constexpr PatternRule kSigmoidGelu[] = {
    {"Gelu(x)", "@QuickGelu(x)", 1},
    {"@Gelu(x)", "@QuickGelu(x)", 1},
};
constexpr PatternRule kTanhGelu[] = {
    {"Gelu(x)", "@FastGelu(x)", 1},
    {"@Gelu(x)", "@FastGelu(x)", 1},
};

bool Apply(Graph& graph, std::span<const PatternRule> rules) {
  return RewriteNodes(graph,
                      [rules](Graph& g, Node* node) { return ApplyPatterns(g, node, rules); });
}

}  // namespace

bool SubstituteSigmoid(Graph& graph, PassContext&) { return Apply(graph, kHard); }
bool SubstituteSiluByRelu6(Graph& graph, PassContext&) { return Apply(graph, kRelu6); }
bool SubstituteGelu(Graph& graph, PassContext&) { return Apply(graph, kSigmoidGelu); }
bool SubstituteGeluByTanh(Graph& graph, PassContext&) { return Apply(graph, kTanhGelu); }

}  // namespace requant

// SubstituteSigmoid
// Before: Sigmoid(x), x * Sigmoid(x)
// After:  HardSigmoid(x, 1/6, 1/2); with CanonicalizeOps, HardSwish(x) (opset 14)
// Bound: |difference| <= 0.07 (near |x| = 1.5 and 3).
//
// SubstituteGelu
// Before: Gelu(x)
// After:  x * Sigmoid(1.702 x)   (Hendrycks & Gimpel, 2016)
// Bound: |difference| <= 0.021
//
// Conditions: float32. Both are optional: they change results. Quantized sessions read such
// functions from tables of 256 entries and gain nothing.
#include "passes/pass.h"
#include "passes/patterns.h"
#include "passes/rewrite.h"

namespace requant {
namespace {

constexpr PatternRule kHard[] = {{"Sigmoid(x)", "HardSigmoid(x)", 1}};
constexpr PatternRule kSigmoidGelu[] = {
    {"Gelu(x)", "Mul(x,Sigmoid(Mul(1.702,x)))", 1},
    {"@Gelu(x)", "Mul(x,Sigmoid(Mul(1.702,x)))", 1},
};

bool Apply(Graph& graph, std::span<const PatternRule> rules) {
  return RewriteNodes(graph,
                      [rules](Graph& g, Node* node) { return ApplyPatterns(g, node, rules); });
}

}  // namespace

bool SubstituteSigmoid(Graph& graph, PassContext&) { return Apply(graph, kHard); }
bool SubstituteGelu(Graph& graph, PassContext&) { return Apply(graph, kSigmoidGelu); }

}  // namespace requant

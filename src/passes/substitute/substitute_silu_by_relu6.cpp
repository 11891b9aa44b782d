// SubstituteSiluByRelu6
// Before: x * Sigmoid(x)
// After:  Clip(x, 0, 6)
// Conditions: those of all substitutions (patterns.h).
// Formula: x / (1 + exp(-x)) becomes max(0, min(6, x)).
// Bound: |difference| <= 0.279 below 6 (at x = -1.28), x - 6 above.
#include "passes/match/patterns.h"
#include "passes/pass.h"

namespace requant {
namespace {

constexpr PatternRule kRules[] = {
    {"@Silu(x)", "Clip(x,0,6)", 11},
    {"Mul(x,Sigmoid(x))", "Clip(x,0,6)", 11},
};

}  // namespace

bool SubstituteSiluByRelu6(Graph& graph, PassContext&) { return RewriteByPatterns(graph, kRules); }

}  // namespace requant
